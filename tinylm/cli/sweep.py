"""tinylm sweep: many runs with different values, each a DVC experiment, on this machine or on a cluster."""

import argparse
from typing import Any

from tinylm.cli.command import CLONE, Command

NOTES = """\
Every run becomes an experiment of DVC, which dvc exp show, dvc exp apply and tinylm compare --all see like any other.
What runs share (stories, vocabulary, vectors) is made once. Runs end with stage evaluate, since the stages that measure
times would be disturbed by other runs. Everything is kept in runs/sweeps/NAME, so an interrupted sweep continues from
there, on this or another machine that sees the folder."""
EXAMPLES = """\
  tinylm sweep -S train.lr=1e-4,3e-4,1e-3 -S model.layers=2,4 --seeds 1,2,3
  tinylm sweep -S train.lr=1e-4,3e-4 --workers 2 --memory 4      two at a time, 4 GiB each
  tinylm sweep -S train.lr=1e-4,3e-4,1e-3,3e-3 --halving         the worse runs are stopped
  tinylm sweep -S model.layers=2,4 --on slurm --workers 8 --slurm time=120 partition=gpu
  tinylm sweep --status                                          the newest; or --status NAME
  tinylm sweep --resume                                          after Ctrl-C, and again what failed
"""
LAST = "evaluate"
MOST_WORKERS, MOST_GIB = 10_000, 1_000_000


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "-S",
        dest="values",
        action="append",
        default=[],
        metavar="KEY=V,V",
        help="values to try, as in dvc exp run -S",
    )
    latest = {"nargs": "?", "const": "", "metavar": "NAME"}
    what.add_argument("--status", help="the runs of a sweep (default: the newest)", **latest)  # type: ignore[arg-type]
    what.add_argument("--resume", help="go on with a sweep (default: the newest)", **latest)  # type: ignore[arg-type]
    parser.add_argument(
        "--seeds", metavar="N,N", help="values of train.seed, each with every setting"
    )
    parser.add_argument(
        "--name", metavar="NAME", help="of the sweep (default: sweep-1, sweep-2 and so on)"
    )
    parser.add_argument(
        "--to", default=LAST, metavar="STAGE", help="the last stage (default %(default)s)"
    )
    parser.add_argument(
        "--halving",
        type=int,
        nargs="?",
        const=4,
        metavar="N",
        help="stop the worse runs: after 1, N, N * N ... validations, one in N continues (default 4)",
    )
    parser.add_argument(
        "--on", choices=("local", "slurm"), default="local", help="where (default %(default)s)"
    )
    parser.add_argument(
        "--workers", type=int, metavar="N", help="runs at once (default: cores / runtime.threads)"
    )
    parser.add_argument(
        "--memory", type=float, metavar="GIB", help="of each run (local default: its share of all)"
    )
    parser.add_argument(
        "--slurm",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="for sbatch, by its long options: partition=gpu time=60",
    )


def run(arguments: argparse.Namespace) -> None:
    """Begin a sweep, continue one, or show one."""
    from tinylm.base.config import InputError
    from tinylm.sweep import plan

    given = vars(arguments)
    existing = [option for option in ("status", "resume") if given[option] is not None]
    new = [option for option in ("seeds", "name", "halving") if given[option] is not None]
    if arguments.to != LAST:
        new.append("to")
    if existing and new:
        raise InputError(f"--{existing[0]} does not go with --{new[0]}, which is for a new sweep")
    if arguments.status is not None:
        sweep = plan.open_sweep(arguments.status or None)
        print(plan.table(sweep, sweep.numbers))
        print(plan.summary(sweep))
        return
    _run_all(arguments)


def _run_all(arguments: argparse.Namespace) -> None:
    """Begin or continue a sweep, and run what is left of it."""
    from tinylm.base.config import InputError, load_params, read_section
    from tinylm.host.runtime import RuntimeSettings
    from tinylm.host.workers import cores
    from tinylm.sweep import begin, engines, plan

    runtime = read_section(load_params(), "runtime", RuntimeSettings)
    workers = arguments.workers
    if workers is None:
        workers = max(1, cores() // runtime.threads)
    _check_range("workers", workers, MOST_WORKERS)
    _check_range("memory", arguments.memory, MOST_GIB)
    if arguments.slurm and arguments.on != "slurm":
        raise InputError(f"--slurm {' '.join(arguments.slurm)} goes only with --on slurm")
    if arguments.halving is not None and arguments.halving < 2:
        raise InputError(f"--halving {arguments.halving}; allowed: more than 1")
    options = begin.slurm_options(arguments.slurm, runtime.threads)
    if arguments.resume is not None:
        sweep = plan.open_sweep(arguments.resume or None)
        sweep.retry_failed()
    else:
        begin.check_target(arguments.to, workers, arguments.on)
        runs = begin.grid(arguments.values, arguments.seeds)
        memory = arguments.memory
        if memory is None and arguments.on == "local":
            memory = begin.share_of_memory(workers)
        sweep = begin.begin(runs, arguments.to, arguments.name, memory, arguments.halving)
    where = f"{workers} at once ({arguments.on})"
    print(f"{sweep.name}: {len(sweep.runs)} runs to stage {sweep.target}, {where}", flush=True)
    if arguments.on == "slurm":
        engines.run_jobs(sweep, workers, runtime.log_every_s, options)
    else:
        engines.run_local(sweep, workers, runtime.log_every_s)
    _print_end(sweep)


def _check_range(option: str, value: float | None, most: int) -> None:
    from tinylm.base.config import InputError

    if value is not None and not 0 < value <= most:
        raise InputError(f"--{option} {value:g}; allowed: more than 0, at most {most:,}")


def _print_end(sweep: Any) -> None:
    """The table of a short sweep, or of the runs that did not succeed, and what to do next."""
    from tinylm.host.command import CommandFailed
    from tinylm.sweep import plan

    shown = list(sweep.numbers)
    if len(shown) > plan.SHOWN:
        shown = [number for number in shown if "why" in sweep.state(number)]
    if shown:
        print(plan.table(sweep, shown[: plan.SHOWN]))
    print(plan.summary(sweep))
    failed = [n for n in sweep.numbers if sweep.state(n)["state"] == plan.FAILED]
    if failed:
        again = f"tinylm sweep --resume {sweep.name} tries again"
        raise CommandFailed(f"{len(failed)} of {len(sweep.runs)} runs failed; {again}")
    print(f"dvc exp show, dvc exp apply {sweep.experiment(1)}, tinylm compare --all")


COMMAND = Command(
    name="sweep",
    purpose="run many settings and seeds, each a DVC experiment, here or on a cluster",
    needs=CLONE,
    add_arguments=add_options,
    run=run,
    notes=NOTES,
    examples=EXAMPLES,
)
