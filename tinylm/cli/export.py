"""tinylm export: the trained model for the library transformers or for llama.cpp; tinylm import: it is read back."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tinylm.base.config import InputError
from tinylm.base.printable import visible

if TYPE_CHECKING:
    from tinylm.exchange.export import Trained

EXPORT_NOTES = """\
Format transformers: an architecture that stock transformers ships, GPT-2, GPT-NeoX or OPT, which needs no code of
ours. Format tinylm: the weights as they are and a small modelling file, which is run with trust_remote_code=True.
Format gguf: model.gguf for llama.cpp, a GPT-2; --weights says how its matrices are stored."""
EXPORT_EXAMPLES = """\
  tinylm export exports/storybook
  tinylm export exports/own --format tinylm
  tinylm export exports/storybook-gguf --format gguf --weights q8_0
"""
IMPORT_EXAMPLES = """\
  tinylm import exports/storybook
  tinylm import exports/storybook --models other/models --vocab other/tokenizer.json
"""


def add_export(parser: argparse.ArgumentParser) -> None:
    """DIR and the format."""
    parser.add_argument(
        "folder",
        metavar="DIR",
        help="a new or empty folder, or an earlier export, which is replaced",
    )
    parser.add_argument(
        "--format",
        choices=("transformers", "tinylm", "gguf"),
        default="transformers",
        help="of the weights (default %(default)s)",
    )
    parser.add_argument(
        "--weights", choices=("f32", "f16", "q8_0"), help="of --format gguf (default f32)"
    )


def add_import(parser: argparse.ArgumentParser) -> None:
    """DIR and whether another model is replaced."""
    parser.add_argument(
        "folder", metavar="DIR", help="what tinylm export wrote, or a copy of it from the hub"
    )
    parser.add_argument(
        "--force", action="store_true", help="also over another model that is there"
    )


def _use(folder: str, own: bool) -> str:
    """Lines of Python that load it."""
    trust = ", trust_remote_code=True" if own else ""
    return (
        "from transformers import AutoModelForCausalLM, AutoTokenizer\n"
        f'model = AutoModelForCausalLM.from_pretrained("{folder}"{trust})\n'
        f'tokenizer = AutoTokenizer.from_pretrained("{folder}"{trust})'
    )


def _say_gguf(folder: str, trained: "Trained", size: str) -> None:
    """What llama.cpp gets, what it computes otherwise, and how to use it."""
    from tinylm.exchange.gguf_file import GGUF, has_text

    settings, vocabulary = trained.model.settings, trained.tokenizer
    print(f"{folder}/{GGUF}: gpt2 of llama.cpp{size}")
    if settings.activation == "gelu":
        print(
            "its gelu is the tanh form, from a table of 16-bit numbers: logits differ by some 1e-3"
        )
    if not has_text(vocabulary):
        print(
            "it holds no vocabulary: ids go in and come out (tinylm/tokenizer.json has their words)"
        )
    print(
        "llama.cpp does not know which tokens are never generated, nor section decode; it stops at the context"
    )
    print(
        f'from llama_cpp import Llama\nmodel = Llama("{folder}/{GGUF}", n_ctx={settings.context})\n'
        + (
            'print(model("once upon a time", temperature=0))'
            if has_text(vocabulary)
            else "model.eval([0, 4, 5])"
        )
    )


def run(arguments: argparse.Namespace) -> None:
    """Write the folder, then print its architecture, what it leaves out and how to use it."""
    from tinylm.exchange.export import Trained, export_folder
    from tinylm.exchange.generation import untranslated
    from tinylm.exchange.loading import find, load_parts

    if arguments.weights and arguments.format != "gguf":
        raise InputError(f"--weights {arguments.weights} goes only with --format gguf")
    models, vocab = find(arguments.models, arguments.vocab)
    trained = Trained(models, vocab, *load_parts(models, vocab))
    made = export_folder(
        Path(arguments.folder), trained, arguments.format, arguments.weights or "f32"
    )
    own = arguments.format == "tinylm"
    ours = sum(parameter.numel() for parameter in trained.model.parameters())
    size = (
        "" if own or made.parameters == ours else f", {made.parameters:,} parameters for {ours:,}"
    )
    folder = visible(arguments.folder)
    if arguments.format == "gguf":
        _say_gguf(folder, trained, size)
        return
    print(f"{folder}: {made.architecture}{size}")
    if own:
        print(
            "it runs the code in its modeling_tinylm.py: transformers asks for trust_remote_code=True"
        )
    for line in untranslated(trained.decode):
        print(f"generate() of transformers lacks {line}")
    print(_use(folder, own))
    if trained.tokenizer.kind == "words":
        print(
            "pipeline('text-generation') puts new words right behind the prompt: end it with a space"
        )


def run_import(arguments: argparse.Namespace) -> None:
    """Copy the originals that the export carries to --models and --vocab, checked, to the same bytes."""
    from tinylm.exchange.originals import restore

    parameters, tokenizer = restore(
        arguments.folder, arguments.models, arguments.vocab, arguments.force
    )
    print(f"{arguments.models}: {parameters:,} parameters")
    print(f"{arguments.vocab}: {len(tokenizer):,} ids, {tokenizer.kind}")
    print(
        "tinylm generate and attention use them as they are; dvc repro makes a vocabulary and trains anew,"
    )
    print("unless they are those of the last run")
