"""tinylm plan: how many seeds and stories detect a difference of a given size."""

import argparse
import dataclasses

from tinylm.base.config import InputError
from tinylm.cli.command import PARAMS, Command

NOTES = """\
By the noise that earlier runs recorded: the spread between seeds (runs that differ in train.seed alone, or seeds.more),
and between stories within a pair of runs (stage evaluate). Two settings are then compared by tinylm compare, with the
same seeds. REV as there; without one, the workspace and every experiment of the current commit."""
EXAMPLES = """\
  tinylm plan --effect 0.01                         a difference of 0.01 nats per token, with a power of 80 %
  tinylm plan --effect 0.01 --comparisons 6         in a sweep of six settings beside the first
  tinylm plan --effect 0.02 --power 0.9 --level 0.01 main warm-newt
"""
MOST_COMPARISONS = 100_000


def add_options(parser: argparse.ArgumentParser) -> None:
    """REVISIONS and the options."""
    parser.add_argument("revisions", nargs="*", metavar="REV", help="the runs whose noise is taken")
    parser.add_argument(
        "--effect", type=float, required=True, metavar="NATS", help="the difference, per token"
    )
    parser.add_argument(
        "--power",
        type=float,
        default=0.8,
        metavar="P",
        help="chance to find it (default %(default)s)",
    )
    parser.add_argument(
        "--level",
        type=float,
        default=0.05,
        metavar="P",
        help="of false claims (default %(default)s)",
    )
    parser.add_argument(
        "--comparisons",
        type=int,
        default=1,
        metavar="N",
        help="to correct for (default %(default)s)",
    )


def check(arguments: argparse.Namespace) -> None:
    """Raise InputError for a number out of its range, NaN among them."""
    for name, low, high in (("effect", 0, 100), ("power", 0, 1), ("level", 0, 1)):
        value = getattr(arguments, name)
        if not low < value < high:
            raise InputError(f"--{name} {value:g}; allowed: above {low} and below {high}")
    if arguments.power <= arguments.level:
        raise InputError(
            f"--power {arguments.power:g}; allowed: above --level, {arguments.level:g}"
        )
    if not 1 <= arguments.comparisons <= MOST_COMPARISONS:
        raise InputError(
            f"--comparisons {arguments.comparisons}; allowed: 1 to {MOST_COMPARISONS:,}"
        )


def run(arguments: argparse.Namespace) -> None:
    """Print the noise and the plans."""
    check(arguments)
    from tinylm.compare.planning import Wanted, plan, recorded
    from tinylm.compare.revisions import WORKSPACE, opened
    from tinylm.compare.runs import read_run

    with opened(
        arguments.revisions or [WORKSPACE], experiments=not arguments.revisions
    ) as revisions:
        noise = recorded([read_run(revision) for revision in revisions])
    if noise.one is None and noise.paired is None:
        where = (
            ", ".join(arguments.revisions) or "the workspace and the current commit's experiments"
        )
        raise InputError(
            f"no spread between seeds is recorded in {where}; dvc exp run -S 'seeds.more=[2,3]', then again"
        )
    wanted = Wanted(
        **{field.name: getattr(arguments, field.name) for field in dataclasses.fields(Wanted)}
    )
    print("\n".join(plan(noise, wanted)))


COMMAND = Command(
    name="plan",
    purpose="how many seeds and stories show a difference of a given size, by the noise of earlier runs",
    needs=PARAMS,
    add_arguments=add_options,
    run=run,
    notes=NOTES,
    examples=EXAMPLES,
)
