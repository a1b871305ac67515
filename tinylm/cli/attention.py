"""tinylm attention: heat maps of a trained model's heads for one text."""

import argparse
from pathlib import Path

from tinylm.base.config import InputError
from tinylm.base.files import atomic_write
from tinylm.base.paths import output_file
from tinylm.cli.command import NOTHING, Command, add_model_options

SUFFIXES = (".png", ".svg")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """TEXT and the options."""
    parser.add_argument("text", metavar="TEXT")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="picture to write, .png or .svg"
    )
    parser.add_argument(
        "--layer", type=int, metavar="N", help="one layer, counted from 1 (default: all)"
    )
    parser.add_argument(
        "--head", type=int, metavar="N", help="one head, counted from 1 (default: all)"
    )
    parser.add_argument(
        "--epoch",
        type=float,
        metavar="E",
        help="the weights kept after so many epochs (default: the last ones)",
    )
    add_model_options(parser)


def _output(name: str) -> Path:
    kinds = " | ".join(SUFFIXES)
    path = output_file("output", name, f", {kinds}")
    if Path(name).suffix.lower() not in SUFFIXES:
        raise InputError(f"--output {name}: unknown kind {Path(name).suffix!r}; allowed: {kinds}")
    return path


def run(arguments: argparse.Namespace) -> None:
    """Draw the chosen heads for the text, up to the context, into one picture."""
    path = _output(arguments.output)

    from matplotlib import rc_context

    from tinylm.api.language_model import load
    from tinylm.exchange.loading import use_threads
    from tinylm.report.drawing import STYLE

    lm = load(arguments.models, arguments.vocab, arguments.epoch)
    use_threads()
    attention = lm.attention(arguments.text)
    try:
        drawing = attention.plot(arguments.layer, arguments.head)
    except InputError as error:  # it names the layer or the head
        raise InputError(f"--{error}") from None
    kind = path.suffix.lower().removeprefix(".")
    no_dates = {"Software": None} if kind == "png" else {"Date": None, "Creator": None}
    with rc_context(STYLE), atomic_write(path, "wb") as target:
        drawing.savefig(target, format=kind, dpi=150, facecolor="white", metadata=no_dates)
    layers, heads_per_layer = attention.weights.shape[:2]
    shown_layers = layers if arguments.layer is None else 1
    shown_heads = heads_per_layer if arguments.head is None else 1
    heads = shown_layers * shown_heads
    count = "1 head" if heads == 1 else f"{heads} heads"
    print(f"{arguments.output}: {count}, {len(attention.words)} tokens")


COMMAND = Command(
    name="attention",
    purpose="draw what each head attends to in a text",
    needs=NOTHING,
    add_arguments=add_arguments,
    run=run,
    examples="""\
  tinylm attention "the cat sat on the mat" -o cat.png
  tinylm attention "the cat sat on the mat" -o head.svg --layer 1 --head 3
  tinylm attention "the cat sat on the mat" -o early.png --epoch 0.0627      as in models/checkpoints
""",
)
