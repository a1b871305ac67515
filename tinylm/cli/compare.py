"""Compare runs: what differs, whether it is significant, and how many seeds you need.

A revision is a commit, branch, tag or experiment, or `workspace`, the files in this folder. Each is
compared with the first on the same evaluation stories, and over seeds where a setting has several.
p is corrected for the number of comparisons. Files come from git and from DVC's cache; nothing is
checked out. --effect prints how many seeds and stories detect a difference of this size in four of
five cases, at level 0.05. It estimates the noise from the revisions; without any, from the workspace
and the current commit's experiments.
"""

import argparse

from tinylm.base.config import InputError
from tinylm.base.files import write_bytes
from tinylm.cli.command import number_between

EXAMPLES = """\
  tinylm compare HEAD workspace
  tinylm compare main warm-newt --html runs/compare.html
  dvc exp run --queue -S 'train.lr=1e-3,3e-3,1e-2' && dvc exp run --run-all
  tinylm compare --all                              the current commit and all its experiments
  tinylm compare --effect 0.01                      seeds and stories to detect 0.01 nats per token
  tinylm compare --effect 0.02 --comparisons 6 main warm-newt
"""
HEAD = "HEAD"
SMALLEST = 1e-6  # difference of a plan
POWER = 0.8  # chance to detect the difference
LEVEL = 0.05  # chance of a false claim


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """REVISIONS and the options."""
    add = parser.add_argument
    add("revisions", nargs="*", metavar="REV", help="the first is the reference")
    add("--all", action="store_true", help="add each finished experiment of the current commit")
    add("--html", metavar="FILE", help="also write the table as a page")
    add = parser.add_argument_group("how many seeds and stories a comparison needs").add_argument
    nats = number_between(float, SMALLEST, 100)
    count = number_between(int, 1, 100_000)
    add("--effect", type=nats, metavar="NATS", help="difference to detect, per token")
    add("--comparisons", type=count, default=1, metavar="N", help="number planned (default 1)")


def run(arguments: argparse.Namespace) -> None:
    """Print the comparison or the plan, and write the requested files."""
    if arguments.effect is None:
        _compare(arguments)
    else:
        _plan(arguments)


def _compare(arguments: argparse.Namespace) -> None:
    names = _revisions(arguments)
    from tinylm.experiments import comparison_page
    from tinylm.experiments.comparison import compare_settings
    from tinylm.experiments.results import read_result
    from tinylm.experiments.revisions import opened
    from tinylm.report.html_page import to_html
    from tinylm.report.render import to_terminal

    with opened(names, experiments=arguments.all) as revisions:
        runs = [read_result(revision) for revision in revisions]
    if len(runs) < 2:
        raise InputError(f"{names[0]} has no finished experiment; run dvc exp run, then try again")
    comparison = compare_settings(runs)
    markdown = comparison_page.to_markdown(comparison)
    print(to_terminal(markdown))
    if arguments.html:
        write_bytes(arguments.html, to_html(markdown).encode())
        print(f"{arguments.html}: the comparison as a page; open it in a browser")


def _revisions(arguments: argparse.Namespace) -> list[str]:
    """The revisions by name, the current commit if --all is given alone. Raises InputError."""
    names: list[str] = arguments.revisions
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"revision {name!r} is named twice")
    if arguments.all:
        return names or [HEAD]
    if len(names) < 2:
        raise InputError(f"expected at least two revisions, or --all, got {len(names)}")
    return names


def _plan(arguments: argparse.Namespace) -> None:
    from tinylm.experiments.power import describe_plan, recorded_noise
    from tinylm.experiments.results import read_result
    from tinylm.experiments.revisions import WORKSPACE, opened

    names = arguments.revisions or [WORKSPACE]
    with opened(names, experiments=arguments.all or not arguments.revisions) as revisions:
        noise = recorded_noise([read_result(revision) for revision in revisions])
    if noise is None:
        hint = "run dvc exp run -S 'seeds.more=[2,3]', then try again"
        raise InputError(
            f"no setting has several seeds on the same stories in {', '.join(names)}; {hint}"
        )
    level = LEVEL / arguments.comparisons  # the first step of Holm's correction
    print("\n".join(describe_plan(noise, arguments.effect, POWER, level)))
