"""tinylm export: the trained model for the library transformers or for llama.cpp."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tinylm.base.config import InputError
from tinylm.base.printable import visible
from tinylm.cli.command import NOTHING, Command, add_model_options

if TYPE_CHECKING:
    from tinylm.exchange.export import Trained


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """DIR, the format and the model."""
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
    add_model_options(parser)


def _print_use(folder: str, is_tinylm: bool) -> None:
    """Lines of Python that load it."""
    trust = ", trust_remote_code=True" if is_tinylm else ""
    print("from transformers import AutoModelForCausalLM, AutoTokenizer")
    print(f'model = AutoModelForCausalLM.from_pretrained("{folder}"{trust})')
    print(f'tokenizer = AutoTokenizer.from_pretrained("{folder}"{trust})')


def _print_gguf(folder: str, trained: "Trained", size: str) -> None:
    """What llama.cpp gets, what it computes otherwise, and how to use it."""
    from tinylm.exchange.gguf_file import GGUF, has_text

    settings = trained.model.settings
    with_text = has_text(trained.tokenizer)
    print(f"{folder}/{GGUF}: gpt2 of llama.cpp{size}")
    if settings.activation == "gelu":
        print("llama.cpp computes gelu by its tanh form in 16 bits: logits differ by some 1e-3")
    if not with_text:
        print("it holds no vocabulary: ids go in and come out (tinylm/tokenizer.json has words)")
    print("llama.cpp lacks section decode and the tokens that are never generated")
    print("it stops at the context")
    print("from llama_cpp import Llama")
    print(f'model = Llama("{folder}/{GGUF}", n_ctx={settings.context})')
    if with_text:
        print('print(model("once upon a time", temperature=0))')
    else:
        print("model.eval([0, 4, 5])")


def run(arguments: argparse.Namespace) -> None:
    """Write the folder, then print its architecture, what it leaves out and how to use it."""
    if arguments.weights and arguments.format != "gguf":
        raise InputError(f"--weights {arguments.weights} goes only with --format gguf")

    from tinylm.exchange.export import Trained, export_folder
    from tinylm.exchange.generation import untranslated
    from tinylm.exchange.loading import find, load_parts

    models, vocab = find(arguments.models, arguments.vocab)
    trained = Trained(models, vocab, *load_parts(models, vocab))
    weights = arguments.weights or "f32"
    form = export_folder(Path(arguments.folder), trained, arguments.format, weights)
    is_tinylm = arguments.format == "tinylm"
    parameters = sum(parameter.numel() for parameter in trained.model.parameters())
    size = ""
    if not is_tinylm and form.parameters != parameters:
        size = f", {form.parameters:,} parameters for {parameters:,}"
    folder = visible(arguments.folder)
    if arguments.format == "gguf":
        _print_gguf(folder, trained, size)
        return
    print(f"{folder}: {form.architecture}{size}")
    if is_tinylm:
        print("it runs modeling_tinylm.py: transformers asks for trust_remote_code=True")
    for line in untranslated(trained.decode):
        print(f"generate() of transformers lacks {line}")
    _print_use(folder, is_tinylm)
    if trained.tokenizer.kind == "words":
        print("pipeline('text-generation') adds no space: end the prompt with one")


COMMAND = Command(
    name="export",
    purpose="write the model as transformers or llama.cpp loads it",
    needs=NOTHING,
    add_arguments=add_arguments,
    run=run,
    notes="""\
Format transformers: GPT-2, or GPT-NeoX with rotary positions, which stock transformers runs without
other code.
Format tinylm: the weights as they are and a small modelling file, which is run with
trust_remote_code=True. Format gguf: model.gguf for llama.cpp, a GPT-2; --weights says how its
matrices are stored.""",
    examples="""\
  tinylm export exports/storybook
  tinylm export exports/own --format tinylm
  tinylm export exports/storybook-gguf --format gguf --weights q8_0
""",
)
