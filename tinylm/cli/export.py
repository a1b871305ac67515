"""tinylm export: write the model as transformers or llama.cpp loads it."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tinylm.base.config import InputError
from tinylm.base.printable import visible
from tinylm.cli.command import NOTHING, add_model_options

if TYPE_CHECKING:
    from tinylm.exchange.export import Trained

NEEDS = NOTHING
NOTES = """\
Format transformers: GPT-2, or GPT-NeoX with rotary positions, which stock transformers runs without
other code. Format tinylm: the weights as they are and a small modelling file, which is run with
trust_remote_code=True. Format gguf: model.gguf for llama.cpp, a GPT-2; --weights says how its
matrices are stored."""
EXAMPLES = """\
  tinylm export exports/storybook
  tinylm export exports/own --format tinylm
  tinylm export exports/storybook-gguf --format gguf --weights q8_0
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """DIR, the format and the model."""
    parser.add_argument(
        "folder", metavar="DIR", help="new, empty, or an earlier export, which is replaced"
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
    add_model_options(parser)


def _gguf_notes(folder: str, trained: "Trained") -> list[str]:
    """What llama.cpp computes otherwise or lacks, and how to use it."""
    from tinylm.exchange.gguf_file import GGUF, has_text

    settings = trained.model.settings
    lines = []
    if settings.activation == "gelu":
        lines.append("llama.cpp computes gelu by its tanh form in 16 bits: logits differ by 1e-3")
    lines += [
        "llama.cpp lacks section decode and the tokens that are never generated",
        "it stops at the context",
        "from llama_cpp import Llama",
        f'model = Llama("{folder}/{GGUF}", n_ctx={settings.context})',
    ]
    if has_text(trained.tokenizer):
        return [*lines, 'print(model("once upon a time", temperature=0))']
    lines.append("model.eval([0, 4, 5])  # no vocabulary: ids go in and come out")
    return lines


def _transformers_notes(folder: str, trained: "Trained", is_tinylm: bool) -> list[str]:
    """What transformers lacks, and how to use it."""
    from tinylm.exchange.generation import untranslated

    trust = ", trust_remote_code=True" if is_tinylm else ""
    lines = [f"generate() of transformers lacks {line}" for line in untranslated(trained.decode)]
    lines += [
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
        f'model = AutoModelForCausalLM.from_pretrained("{folder}"{trust})',
        f'tokenizer = AutoTokenizer.from_pretrained("{folder}"{trust})',
    ]
    if trained.tokenizer.kind == "words":
        lines.append("# pipeline('text-generation') adds no space: end the prompt with one")
    return lines


def run(arguments: argparse.Namespace) -> None:
    """Write the folder, then print its architecture, what it leaves out and how to use it."""
    if arguments.weights and arguments.format != "gguf":
        raise InputError(f"--weights {arguments.weights}; allowed only with --format gguf")

    from tinylm.exchange.export import Trained, export_folder
    from tinylm.exchange.loading import find, load_parts

    models, vocab = find(arguments.models, arguments.vocab)
    trained = Trained(models, vocab, *load_parts(models, vocab))
    weights = arguments.weights or "f32"
    form = export_folder(Path(arguments.folder), trained, arguments.format, weights)
    folder = visible(arguments.folder)
    parameters = sum(parameter.numel() for parameter in trained.model.parameters())
    print(f"{folder}: {form.architecture}")
    if arguments.format != "tinylm" and form.parameters != parameters:
        print(f"{form.parameters:,} parameters for {parameters:,}")
    if arguments.format == "gguf":
        print("\n".join(_gguf_notes(folder, trained)))
    else:
        is_tinylm = arguments.format == "tinylm"
        print("\n".join(_transformers_notes(folder, trained, is_tinylm)))
