"""tinylm compare: what runs differ in, how sure that is, and how many seeds show a difference.

A revision is a commit, a branch, a tag, an experiment, or `workspace`, the files as they are. Each
is compared with the first over the evaluation stories, which must be the same. Settings with several
seeds are compared over these, too. p is corrected for the number of comparisons. Files
come from git and from DVC's cache; nothing is checked out. With --effect, the revisions' noise
between seeds and between stories gives the number of seeds and stories that detect such a
difference; without revisions, the noise of the workspace and the current commit's experiments.
"""

import argparse

from tinylm.base.config import InputError
from tinylm.base.files import write_bytes, write_json
from tinylm.base.paths import output_file
from tinylm.cli.command import number

EXAMPLES = """\
  tinylm compare HEAD workspace
  tinylm compare main warm-newt --html runs/compare.html
  dvc exp run --queue -S 'train.lr=1e-3,3e-3,1e-2' && dvc exp run --run-all
  tinylm compare --all                              the current commit and all its experiments
  tinylm compare --effect 0.01                      seeds and stories to detect 0.01 nats per token
  tinylm compare --effect 0.02 --power 0.9 --comparisons 6 main warm-newt
"""
HEAD = "HEAD"
QUOTED = 3  # up to this number of runs, the terminal quotes stories; page and JSON always do
SMALLEST = 1e-6  # difference or level of a plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """REVISIONS and the options."""
    add = parser.add_argument
    add("revisions", nargs="*", metavar="REV", help="the first is the reference")
    add("--all", action="store_true", help="also each finished experiment of the current commit")
    add("--json", metavar="FILE", help="write it as JSON as well")
    add("--html", metavar="FILE", help="write a page with all stories")
    add = parser.add_argument_group("how many seeds and stories a comparison needs").add_argument
    nats = number(float, SMALLEST, 100)
    power = number(float, 0.5, 0.99)
    level = number(float, SMALLEST, 0.5)
    count = number(int, 1, 100_000)
    add("--effect", type=nats, metavar="NATS", help="the difference, per token")
    add("--power", type=power, default=0.8, help="chance to find it (default %(default)s)")
    add("--level", type=level, default=0.05, help="chance of a false claim (default %(default)s)")
    add("--comparisons", type=count, default=1, metavar="N", help="to correct for (default 1)")


def run(arguments: argparse.Namespace) -> None:
    """Print the comparison or the plan, and write the requested files."""
    if arguments.effect is None:
        _compare(arguments)
    else:
        _plan(arguments)


def _compare(arguments: argparse.Namespace) -> None:
    names = _revisions(arguments)
    json_file = output_file("json", arguments.json) if arguments.json else None
    html_file = output_file("html", arguments.html) if arguments.html else None
    from tinylm.compare import page
    from tinylm.compare.comparison import compare
    from tinylm.compare.revisions import opened
    from tinylm.compare.runs import read_run
    from tinylm.report.html_page import to_html
    from tinylm.report.render import to_terminal

    with opened(names, experiments=arguments.all) as revisions:
        runs = [read_run(revision) for revision in revisions]
    if len(runs) < 2:
        raise InputError(f"{names[0]} has no finished experiment; dvc exp run, then again")
    comparison = compare(runs)
    measured = [run.metrics for run in runs if run.stories is not None]
    is_same = all(metrics == measured[0] for metrics in measured)
    if is_same and comparison.parameters.empty and not comparison.inputs:
        print(f"{', '.join(run.name for run in runs)}: the same parameters, code and data")
    else:
        print(to_terminal(page.to_markdown(comparison, stories=len(runs) <= QUOTED)))
    if json_file:
        write_json(json_file, page.as_json(comparison))
    if html_file:
        write_bytes(html_file, to_html(page.to_markdown(comparison)).encode())


def _revisions(arguments: argparse.Namespace) -> list[str]:
    """The revisions by name, the current commit if --all is given alone. Raises InputError."""
    names: list[str] = arguments.revisions
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"revision {name!r} is named twice; allowed: each once")
    if arguments.all:
        return names or [HEAD]
    if len(names) < 2:
        allowed = "two or more, or --all for the current commit's experiments"
        raise InputError(f"fewer than two revisions; allowed: {allowed}")
    return names


def _plan(arguments: argparse.Namespace) -> None:
    from tinylm.compare.planning import describe_plan, recorded_noise
    from tinylm.compare.revisions import WORKSPACE, opened
    from tinylm.compare.runs import read_run

    names = arguments.revisions or [WORKSPACE]
    with opened(names, experiments=arguments.all or not arguments.revisions) as revisions:
        noise = recorded_noise([read_run(revision) for revision in revisions])
    if noise is None:
        hint = "dvc exp run -S 'seeds.more=[2,3]', then again"
        raise InputError(f"no spread between seeds is recorded in {', '.join(names)}; {hint}")
    level = arguments.level / arguments.comparisons  # the first step of Holm's correction
    print("\n".join(describe_plan(noise, arguments.effect, arguments.power, level)))
