"""tinylm compare: revisions compared with the first, or the seeds and stories that a comparison needs."""

import argparse
from collections.abc import Mapping
from pathlib import Path

from tinylm.base.config import InputError
from tinylm.base.files import atomic_write, write_json
from tinylm.base.paths import output_file
from tinylm.cli.command import PARAMS, Command

HEAD = "HEAD"
FILES = ("json", "html")
QUOTED = 3  # up to so many runs the terminal quotes stories; the page and the JSON always do
MOST_COMPARISONS = 100_000
PLAN_OPTIONS = ("power", "level", "comparisons")  # they go with --effect
NOTES = """\
A revision is a commit, a branch, a tag, an experiment, or `workspace`, the files as they are. Each is compared with
the first, by bootstrap over the evaluation stories that both were scored on and, where settings have several seeds,
over these; p is corrected for the number of comparisons. Files come from git and from DVC's cache; nothing is checked
out. With --effect, the revisions' noise between seeds and between stories gives the number of seeds and stories that
detect such a difference; without revisions, the noise of the workspace and the current commit's experiments."""
EXAMPLES = """\
  tinylm compare HEAD workspace
  tinylm compare main warm-newt --html runs/compare.html
  dvc exp run --queue -S 'train.lr=1e-3,3e-3,1e-2' && dvc exp run --run-all
  tinylm compare --all                              the current commit and all its experiments
  tinylm compare --effect 0.01                      seeds and stories to detect 0.01 nats per token
  tinylm compare --effect 0.02 --power 0.9 --comparisons 6 main warm-newt
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """REVISIONS and the options."""
    parser.add_argument("revisions", nargs="*", metavar="REV", help="the first is the reference")
    parser.add_argument(
        "--all", action="store_true", help="also every finished experiment of the current commit"
    )
    parser.add_argument("--json", metavar="FILE", help="write it as JSON as well")
    parser.add_argument(
        "--html", metavar="FILE", help="write it as a page as well, with pictures and all stories"
    )
    plan = parser.add_argument_group("how many seeds and stories a comparison needs")
    plan.add_argument("--effect", type=float, metavar="NATS", help="the difference, per token")
    plan.add_argument("--power", type=float, metavar="P", help="chance to find it (default 0.8)")
    plan.add_argument(
        "--level", type=float, metavar="P", help="chance of a false claim (default 0.05)"
    )
    plan.add_argument("--comparisons", type=int, metavar="N", help="to correct for (default 1)")


def run(arguments: argparse.Namespace) -> None:
    """Print the comparison or the plan, and write the files that were asked for."""
    if arguments.effect is not None:
        _plan(arguments)
        return
    for option in PLAN_OPTIONS:
        if getattr(arguments, option) is not None:
            raise InputError(f"--{option} goes only with --effect")
    _compare(arguments)


def _compare(arguments: argparse.Namespace) -> None:
    names = _revisions(arguments)
    paths = _files(arguments)
    from tinylm.compare import page
    from tinylm.compare.comparison import compare
    from tinylm.compare.revisions import opened
    from tinylm.compare.runs import read_run
    from tinylm.compare.scaling import scaling_of
    from tinylm.report.render import to_terminal

    with opened(names, experiments=arguments.all) as revisions:
        runs = [read_run(revision) for revision in revisions]
    if len(runs) < 2:
        raise InputError(f"{names[0]} has no finished experiment; dvc exp run, then again")
    comparison = compare(runs)
    scaling = scaling_of(runs) if arguments.all else None
    print(to_terminal(page.to_markdown(comparison, scaling, stories=len(runs) <= QUOTED)))
    if "json" in paths:
        write_json(paths["json"], page.as_json(comparison, scaling))
    if "html" in paths:
        with atomic_write(paths["html"]) as handle:
            handle.write(page.to_html(comparison, scaling))


def _revisions(arguments: argparse.Namespace) -> list[str]:
    """The revisions by name, the current commit if --all is given alone. Raises InputError."""
    names: list[str] = arguments.revisions
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"revision {name!r} is named twice; allowed: each once")
    if arguments.all:
        return names or [HEAD]
    if len(names) < 2:
        raise InputError(
            "fewer than two revisions; allowed: two or more, or --all for the current commit's "
            "experiments"
        )
    return names


def _files(arguments: argparse.Namespace) -> Mapping[str, Path]:
    """{option: the file that it names}. Raises InputError."""
    options = vars(arguments)
    paths = {name: output_file(name, options[name]) for name in FILES if options[name] is not None}
    if len(set(paths.values())) < len(paths):
        raise InputError(f"--json and --html are both {arguments.json}; allowed: two files")
    return paths


def _plan(arguments: argparse.Namespace) -> None:
    from tinylm.compare.planning import Goal, describe_plan, recorded_noise
    from tinylm.compare.revisions import WORKSPACE, opened
    from tinylm.compare.runs import read_run

    given = {option: getattr(arguments, option) for option in PLAN_OPTIONS}
    given = {option: value for option, value in given.items() if value is not None}
    goal = Goal(arguments.effect, **given)
    for option, most in (("effect", 100), ("power", 1), ("level", 1)):
        value = getattr(goal, option)
        if not 0 < value < most:  # NaN too
            raise InputError(f"--{option} {value:g}; allowed: above 0 and below {most}")
    if goal.power <= goal.level:
        raise InputError(f"--power {goal.power:g}; allowed: above --level, {goal.level:g}")
    if not 1 <= goal.comparisons <= MOST_COMPARISONS:
        raise InputError(f"--comparisons {goal.comparisons}; allowed: 1 to {MOST_COMPARISONS:,}")
    for option in ("json", "html"):
        if getattr(arguments, option) is not None:
            raise InputError(f"--{option} does not go with --effect")
    names = arguments.revisions or [WORKSPACE]
    with opened(names, experiments=arguments.all or not arguments.revisions) as revisions:
        noise = recorded_noise([read_run(revision) for revision in revisions])
    if noise is None:
        where = ", ".join(names)
        hint = "dvc exp run -S 'seeds.more=[2,3]', then again"
        raise InputError(f"no spread between seeds is recorded in {where}; {hint}")
    print("\n".join(describe_plan(noise, goal)))


COMMAND = Command(
    name="compare",
    purpose="what runs differ in, how sure the difference is, and how many seeds show one",
    needs=PARAMS,
    add_arguments=add_options,
    run=run,
    notes=NOTES,
    examples=EXAMPLES,
)
