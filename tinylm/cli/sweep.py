"""Run many settings and seeds as DVC experiments, here or on a cluster.

Every run becomes a DVC experiment, which dvc exp show, dvc exp apply and tinylm compare --all treat
like any other. Runs take stories, vocabulary and vectors from DVC's cache. They end with stage
evaluate, since the stages that measure times would be disturbed by other runs. Everything is kept
in runs/sweeps/NAME, so an interrupted sweep continues from there, on this or another machine that
sees the folder.
"""

import argparse
from typing import TYPE_CHECKING, Any

from tinylm.base.command import CommandFailed
from tinylm.base.config import InputError, load_params, read_section
from tinylm.cli.command import check_clone, number_between

if TYPE_CHECKING:
    from tinylm.experiments.sweeps import Sweep

EXAMPLES = """\
  tinylm sweep -S train.lr=1e-4,3e-4,1e-3 -S model.layers=2,4 --seeds 1,2,3
  tinylm sweep -S train.lr=1e-4,3e-4 --workers 2                 two at a time
  tinylm sweep -S model.layers=2,4 --on slurm --workers 8 --slurm time=120 partition=gpu
  tinylm sweep --status                                          the newest; or --status NAME
  tinylm sweep --resume                                          after Ctrl-C, and again what failed
"""
LAST = "evaluate"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    newest: dict[str, Any] = {"nargs": "?", "const": "", "metavar": "NAME"}
    what = parser.add_mutually_exclusive_group()
    values: dict[str, Any] = {"action": "append", "default": [], "metavar": "KEY=V,V"}
    what.add_argument("-S", dest="values", help="values to try, as in params.yaml", **values)
    what.add_argument("--status", help="show the runs of a sweep (default: the newest)", **newest)
    what.add_argument("--resume", help="continue a sweep (default: the newest)", **newest)
    add = parser.add_argument
    add("--seeds", metavar="N,N", help="values of train.seed; every setting runs with each")
    add("--name", help="name of the sweep (default: sweep-1 and so on)")
    add("--on", choices=("local", "slurm"), default="local", help="where (default %(default)s)")
    count = number_between(int, 1, 10_000)
    add(
        "--workers", type=count, metavar="N", help="runs at once (default: cores / runtime.threads)"
    )
    options: dict[str, Any] = {"nargs": "+", "default": [], "metavar": "KEY=VALUE"}
    add("--slurm", help="long options of sbatch, such as partition=gpu time=60", **options)


def run(arguments: argparse.Namespace) -> None:
    """Begin a sweep, continue one, or show one."""
    from tinylm.experiments import sweeps

    check_clone()
    if arguments.status is None:
        _run_all(arguments)
        return
    sweep = sweeps.open_sweep(arguments.status or None)
    print(sweeps.table(sweep))


def _run_all(arguments: argparse.Namespace) -> None:
    """Start or continue a sweep, and run what is left of it."""
    from tinylm.base.processes import cores
    from tinylm.base.runtime import RuntimeSettings
    from tinylm.experiments import launch, new_sweep, sweeps

    runtime = read_section(load_params(), "runtime", RuntimeSettings)
    workers = arguments.workers or max(1, cores() // runtime.threads)
    is_local = arguments.on == "local"
    if arguments.slurm and is_local:
        raise InputError(f"--slurm {' '.join(arguments.slurm)} needs --on slurm")
    options = new_sweep.slurm_options(arguments.slurm, runtime.threads)
    if arguments.resume is not None:
        for option in ("seeds", "name"):
            if getattr(arguments, option) is not None:
                raise InputError(f"--resume continues a sweep; --{option} is for a new one")
        sweep = sweeps.open_sweep(arguments.resume or None)
        sweep.retry_failed()
    else:
        seeds = [f"train.seed={arguments.seeds}"] if arguments.seeds is not None else []
        runs = new_sweep.grid(seeds + arguments.values)
        sweep = new_sweep.begin(runs, LAST, arguments.name)
    where = f"{workers} at once ({arguments.on})"
    print(f"{sweep.name}: {len(sweep.runs)} runs to stage {sweep.target}, {where}", flush=True)
    if is_local:
        launch.run_local(sweep, workers)
    else:
        launch.run_jobs(sweep, workers, options)
    _print_end(sweep)


def _print_end(sweep: "Sweep") -> None:
    """The table of the runs, and what to do next."""
    from tinylm.experiments import sweeps

    print(sweeps.table(sweep))
    failed = [run for run in sweep.numbers if sweep.state(run)["state"] == sweeps.FAILED]
    if failed:
        again = f"tinylm sweep --resume {sweep.name} tries again"
        raise CommandFailed(f"{len(failed)} of {len(sweep.runs)} runs failed; {again}")
    print(f"dvc exp show, dvc exp apply {sweep.experiment(1)}, tinylm compare --all")
