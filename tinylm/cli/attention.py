"""Draw what each head attends to in a text, as one picture."""

import argparse
from pathlib import Path

from tinylm.base.config import InputError
from tinylm.base.files import atomic_write
from tinylm.base.paths import output_file
from tinylm.cli.command import add_model_options

EXAMPLES = """\
  tinylm attention "the cat sat on the mat" -o cat.png
  tinylm attention "the cat sat on the mat" -o head.svg --layer 1 --head 3
  tinylm attention "the cat sat on the mat" -o early.png --epoch 0.0627    as in models/checkpoints
"""
FORMATS = ("png", "svg")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """TEXT and the options."""
    add = parser.add_argument
    add("text", metavar="TEXT")
    add("-o", "--output", required=True, metavar="FILE", help="picture to write, .png or .svg")
    add("--layer", type=int, metavar="N", help="one layer, from 1 (default: all)")
    add("--head", type=int, metavar="N", help="one head, from 1 (default: all)")
    add(
        "--epoch", type=float, metavar="E", help="the checkpoint after E epochs (default: the last)"
    )
    add_model_options(parser)


def run(arguments: argparse.Namespace) -> None:
    """Draw the chosen heads for the text, up to the context, into one picture."""
    name = arguments.output
    path = output_file("output", name)
    kind = Path(name).suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise InputError(f"--output: expected a file that ends in .png or .svg, got {name}")

    from tinylm.api.language_model import load
    from tinylm.exchange.loading import use_threads
    from tinylm.report.drawing import in_style

    lm = load(arguments.models, arguments.vocab, arguments.epoch)
    use_threads()
    attention = lm.attention(arguments.text)
    drawing = attention.plot(arguments.layer, arguments.head)
    no_dates = {"Software": None} if kind == "png" else {"Date": None, "Creator": None}
    with in_style(), atomic_write(path, "wb") as target:
        drawing.savefig(target, format=kind, dpi=150, facecolor="white", metadata=no_dates)
    print(f"{name}: {len(attention.words)} tokens")
