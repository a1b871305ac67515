"""Options of tinylm compare."""

import argparse

NOTES = """\
A revision is a commit, a branch, a tag, an experiment, or `workspace`, the files as they stand. Each is compared with
the first, by bootstrap over the evaluation stories that both were scored on. Files come from git and from DVC's cache;
nothing is checked out."""
EXAMPLES = """\
  tinylm compare HEAD workspace
  tinylm compare main warm-newt --html runs/compare.html
  dvc exp run --queue -S 'train.lr=1e-3,3e-3,1e-2' && dvc exp run --run-all
  tinylm compare --all                              the current commit and all its experiments
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """REVISIONS and the options."""
    parser.add_argument("revisions", nargs="*", metavar="REV", help="the first is what the others are compared with")
    parser.add_argument("--all", action="store_true", help="also every finished experiment of the current commit")
    parser.add_argument("--json", metavar="FILE", help="write it as JSON as well")
    parser.add_argument("--html", metavar="FILE", help="write it as a page as well, with pictures and all stories")
