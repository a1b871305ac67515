"""tinylm export: the trained model as a folder for the library transformers; tinylm import: such a folder read back."""

import argparse
from pathlib import Path

from tinylm.base.printable import visible

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


def _use(folder: str, own: bool) -> str:
    trust = ", trust_remote_code=True" if own else ""
    return (
        "from transformers import AutoModelForCausalLM, AutoTokenizer\n"
        f'model = AutoModelForCausalLM.from_pretrained("{folder}"{trust})\n'
        f'tokenizer = AutoTokenizer.from_pretrained("{folder}"{trust})'
    )


def run(arguments: argparse.Namespace) -> None:
    """Write the folder, then print its architecture, what it leaves out and how to use it."""
    from tinylm.exchange.export import Trained, export_folder
    from tinylm.exchange.generation import untranslated
    from tinylm.exchange.loading import load_parts

    trained = Trained(arguments.models, arguments.vocab, *load_parts(arguments.models, arguments.vocab))
    made = export_folder(Path(arguments.folder), trained, arguments.format)
    own = arguments.format == "tinylm"
    ours = sum(parameter.numel() for parameter in trained.model.parameters())
    size = "" if own or made.parameters == ours else f", {made.parameters:,} parameters for {ours:,}"
    folder = visible(arguments.folder)
    print(f"{folder}: {made.architecture}{size}")
    if own:
        print("it runs the code in its modeling_tinylm.py: transformers asks for trust_remote_code=True")
    for line in untranslated(trained.decode):
        print(f"generate() of transformers lacks {line}")
    print(_use(folder, own))
    if trained.tokenizer.kind == "words":
        print("pipeline('text-generation') puts new words right behind the prompt: end it with a space")


def run_import(arguments: argparse.Namespace) -> None:
    """Copy the originals that the export carries to --models and --vocab, checked, to the same bytes."""
    from tinylm.exchange.originals import restore

    parameters, tokenizer = restore(arguments.folder, arguments.models, arguments.vocab, arguments.force)
    print(f"{arguments.models}: {parameters:,} parameters")
    print(f"{arguments.vocab}: {len(tokenizer):,} ids, {tokenizer.kind}")
    print("tinylm generate and attention use them as they are; dvc repro makes a vocabulary and trains anew,")
    print("unless they are those of the last run")
