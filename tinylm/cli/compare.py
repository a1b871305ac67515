"""tinylm compare: two or more revisions compared with the first, as a table, a page and JSON."""

import argparse

from tinylm.base.config import InputError
from tinylm.base.files import atomic_write, write_json
from tinylm.base.paths import output_file
from tinylm.cli.command import PARAMS, Command

HEAD = "HEAD"
FILES = ("json", "html")
TOGETHER = 3  # with up to this many runs, stories are printed too; with more, only the page and the JSON have them
NOTES = """\
A revision is a commit, a branch, a tag, an experiment, or `workspace`, the files as they stand. Each is compared with
the first, by bootstrap over the evaluation stories that both were scored on and, where settings have several seeds,
over these; p is corrected for the number of comparisons. Files come from git and from DVC's cache; nothing is checked
out."""
EXAMPLES = """\
  tinylm compare HEAD workspace
  tinylm compare main warm-newt --html runs/compare.html
  dvc exp run --queue -S 'train.lr=1e-3,3e-3,1e-2' && dvc exp run --run-all
  tinylm compare --all                              the current commit and all its experiments
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """REVISIONS and the options."""
    parser.add_argument(
        "revisions", nargs="*", metavar="REV", help="the first is what the others are compared with"
    )
    parser.add_argument(
        "--all", action="store_true", help="also every finished experiment of the current commit"
    )
    parser.add_argument("--json", metavar="FILE", help="write it as JSON as well")
    parser.add_argument(
        "--html", metavar="FILE", help="write it as a page as well, with pictures and all stories"
    )


def chosen(arguments: argparse.Namespace) -> list[str]:
    """The revisions by name, the current commit first if --all is given alone. Raises InputError."""
    names: list[str] = arguments.revisions
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"revision {twice[0]!r} is named twice; allowed: each once")
    if arguments.all:
        return names or [HEAD]
    if len(names) < 2:
        raise InputError(
            "fewer than two revisions; name two or more, or give --all for the current commit's experiments"
        )
    return names


def run(arguments: argparse.Namespace) -> None:
    """Print the comparison, and write the files that were asked for."""
    names = chosen(arguments)
    written = {
        option: output_file(option, name)
        for option in FILES
        if (name := getattr(arguments, option)) is not None
    }
    if len(set(written.values())) < len(written):
        raise InputError(f"--json and --html are both {arguments.json}; allowed: two files")
    from tinylm.compare.comparison import compare
    from tinylm.compare.revisions import opened
    from tinylm.compare.runs import read_run
    from tinylm.compare.scaling import scaling_of
    from tinylm.compare.sections import sections
    from tinylm.compare.terminal import to_text

    with opened(names, experiments=arguments.all) as revisions:
        runs = [read_run(revision) for revision in revisions]
    if len(runs) < 2:
        raise InputError(
            f"{names[0]} has no finished experiment; dvc exp run --queue, dvc exp run --run-all, then again"
        )
    comparison, scaling = compare(runs), scaling_of(runs) if arguments.all else None
    print(to_text(sections(comparison, scaling, stories=len(runs) <= TOGETHER)))
    if "json" in written:
        from tinylm.compare.sections import as_json

        write_json(written["json"], as_json(comparison, scaling))
    if "html" in written:
        from tinylm.compare.page import to_html

        with atomic_write(written["html"]) as page:
            page.write(to_html(comparison, scaling))


COMMAND = Command(
    name="compare",
    purpose="what two or more runs differ in, and how sure the difference is",
    needs=PARAMS,
    add_arguments=add_options,
    run=run,
    notes=NOTES,
    examples=EXAMPLES,
)
