"""Options of tinylm export and tinylm import."""

import argparse

EXPORT_NOTES = """\
Format transformers: an architecture that stock transformers ships, GPT-2 or OPT, which needs no code of ours. Format
tinylm: the weights as they are and a small modelling file, which is run with trust_remote_code=True."""
EXPORT_EXAMPLES = """\
  tinylm export exports/storybook
  tinylm export exports/own --format tinylm
"""
IMPORT_EXAMPLES = """\
  tinylm import exports/storybook
  tinylm import exports/storybook --models other/models --vocab other/tokenizer.json
"""


def add_export(parser: argparse.ArgumentParser) -> None:
    """DIR and the format."""
    parser.add_argument("folder", metavar="DIR", help="a new or empty folder, or an earlier export, which is replaced")
    parser.add_argument(
        "--format",
        choices=("transformers", "tinylm"),
        default="transformers",
        help="of the weights (default %(default)s)",
    )


def add_import(parser: argparse.ArgumentParser) -> None:
    """DIR and whether another model is replaced."""
    parser.add_argument("folder", metavar="DIR", help="what tinylm export wrote, or a copy of it from the hub")
    parser.add_argument("--force", action="store_true", help="also over another model that is there")
