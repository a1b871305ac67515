"""tinylm sweep: many runs with different values, each a DVC experiment, on this machine or on a cluster."""

import argparse
from typing import Any

from tinylm.cli.command import CLONE, Command

NOTES = """\
Every run becomes an experiment of DVC, which dvc exp show, dvc exp apply and tinylm compare --all see like any other.
What runs share (stories, vocabulary, vectors) is made once. Runs end with stage evaluate: the stages that measure times
are left out, since other runs would disturb them. Everything is kept in runs/sweeps/NAME, so that a sweep that was
interrupted goes on from there, on this or another machine that sees the folder."""
EXAMPLES = """\
  tinylm sweep -S train.lr=1e-4,3e-4,1e-3 -S model.layers=2,4 --seeds 1,2,3
  tinylm sweep -S train.lr=1e-4,3e-4 --workers 2 --memory 4      two at a time, 4 GiB each
  tinylm sweep -S train.lr=1e-4,3e-4,1e-3,3e-3 --halving         hopeless runs are stopped
  tinylm sweep -S model.layers=2,4 --on slurm --workers 8 --slurm time=120 partition=gpu
  tinylm sweep --to seed_score --workers 2                       the seeds of seeds.more, then dvc repro
  tinylm sweep --status                                          the newest; or --status NAME
  tinylm sweep --resume                                          after Ctrl-C, and what failed again
"""
LAST = "evaluate"


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
    add_places(parser)
    parser.add_argument(
        "--halving", type=int, nargs="?", const=4, metavar="N", help="stop runs beside which others are better: after "
        "a validation, N, N * N and so on, one in N goes on (default 4)",
    )  # fmt: skip


def add_places(parser: argparse.ArgumentParser) -> None:
    """The options that say where runs go on, and how many at once."""
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
    """Begin a sweep, go on with one, or show one."""
    from tinylm.base.config import InputError
    from tinylm.sweep import plan

    begun = [option for option in ("status", "resume") if getattr(arguments, option) is not None]
    new = [
        option for option in ("seeds", "name", "halving") if getattr(arguments, option) is not None
    ]
    if begun and (new or arguments.to != LAST):
        raise InputError(
            f"--{begun[0]} does not go with --{(new or ['to'])[0]}, which is for a new sweep"
        )
    if arguments.status is not None:
        sweep = plan.open_sweep(arguments.status or None)
        print(plan.table(sweep, sweep.numbers))
        print(plan.summary(sweep))
        return
    _carry_out(arguments)


class Places:
    """Where the runs of a sweep go on, checked: --on, --workers, --memory and --slurm. Raises InputError."""

    def __init__(self, arguments: argparse.Namespace, threads: int | None = None) -> None:
        from tinylm.base.config import InputError, load_params, read_section
        from tinylm.host.runtime import RuntimeSettings
        from tinylm.host.workers import cores
        from tinylm.sweep import begin

        runtime = read_section(load_params(), "runtime", RuntimeSettings)
        self.on, self.memory, self.every_s = arguments.on, arguments.memory, runtime.log_every_s
        threads = threads or runtime.threads
        self.workers = (
            arguments.workers if arguments.workers is not None else max(1, cores() // threads)
        )
        for name, value, most in (
            ("workers", self.workers, 10_000),
            ("memory", self.memory, 1_000_000),
        ):
            if value is not None and not 0 < value <= most:
                raise InputError(f"--{name} {value:g}; allowed: more than 0, at most {most:,}")
        if arguments.slurm and self.on != "slurm":
            raise InputError(f"--slurm {' '.join(arguments.slurm)} goes only with --on slurm")
        self.slurm = begin.slurm_options(arguments.slurm, threads)

    def carry_out(self, sweep: Any) -> None:
        """All runs that are left."""
        from tinylm.sweep import engines

        stages = "|".join(dict.fromkeys(sweep.targets))
        print(
            f"{sweep.name}: {len(sweep.runs)} runs to stage {stages}, {self.workers} at once ({self.on})",
            flush=True,
        )
        if self.on == "slurm":
            engines.run_slurm(sweep, self.workers, self.every_s, self.slurm)
        else:
            engines.run_local(sweep, self.workers, self.every_s)


def _carry_out(arguments: argparse.Namespace) -> None:
    from tinylm.base.config import InputError
    from tinylm.sweep import begin, plan

    places = Places(arguments)
    if arguments.halving is not None and arguments.halving < 2:
        raise InputError(f"--halving {arguments.halving}; allowed: more than 1")
    if arguments.resume is not None:
        sweep = plan.open_sweep(arguments.resume or None)
        sweep.begin_again()
    else:
        targets = begin.targets_of(arguments.to, places.workers, places.on)
        planned = begin.grid(arguments.values, arguments.seeds, targets)
        sweep = begin.begin(
            planned, arguments.name, places.workers, places.on, places.memory, arguments.halving
        )
    places.carry_out(sweep)
    _ended(sweep, plan)


def _ended(sweep: Any, plan: Any) -> None:
    from tinylm.host.command import CommandFailed

    shown = (
        sweep.numbers
        if len(sweep.runs) <= plan.SHOWN
        else [n for n in sweep.numbers if "why" in sweep.state(n)]
    )
    if shown:
        print(plan.table(sweep, shown[: plan.SHOWN]))
    failed = [n for n in sweep.numbers if sweep.state(n)["state"] == plan.FAILED]
    print(plan.summary(sweep))
    if failed:
        again = f"tinylm sweep --resume {sweep.name} tries again"
        raise CommandFailed(
            f"{len(failed)} of {len(sweep.runs)} runs failed, the others are whole; {again}"
        )
    if "@" in sweep.targets[0]:
        print("dvc repro takes what was made from DVC's cache")
    else:
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
