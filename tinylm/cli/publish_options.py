"""Options of tinylm publish."""

import argparse

NOTES = """\
Writes exports/REPO: the weights as `tinylm export` gives them, a model card, the training curve, the report and what
says how it was made. Then all of it becomes one commit of the repository; until then, and if anything fails, its old
revision stands. The token is the one of `hf auth login` or HF_TOKEN."""
EXAMPLES = """\
  tinylm publish me/small-stories --dry-run
  tinylm publish me/small-stories --private --license mit
  tinylm publish me/my-stories --data-license cc-by-4.0
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """REPO and the options."""
    parser.add_argument("repo", metavar="REPO", help="OWNER/NAME; it is made if it is not there")
    parser.add_argument("--dry-run", action="store_true", help="write the folder and say what would go where")
    parser.add_argument("--private", action="store_true", help="a new repository that only you can see")
    parser.add_argument("--license", metavar="NAME", help="of the weights, for the card (default: none is stated)")
    parser.add_argument("--data-license", metavar="NAME", help="of the data, where tinylm cannot know it")
    parser.add_argument(
        "--format",
        choices=("transformers", "tinylm"),
        default="transformers",
        help="of the weights, as in tinylm export (default %(default)s)",
    )
