"""tinylm attention: heat maps of a trained model's heads for one text."""

import argparse
from pathlib import Path

from matplotlib import rc_context

from tinylm.api.language_model import load
from tinylm.base.config import InputError
from tinylm.base.files import atomic_write
from tinylm.base.paths import output_file
from tinylm.exchange.loading import use_threads
from tinylm.report.drawing import STYLE

SUFFIXES = (".png", ".svg")


def _output(name: str) -> Path:
    kinds = " | ".join(SUFFIXES)
    path = output_file("output", name, f", {kinds}")
    if Path(name).suffix.lower() not in SUFFIXES:
        raise InputError(f"--output {name}: unknown kind {Path(name).suffix!r}; allowed: {kinds}")
    return path


def run(arguments: argparse.Namespace) -> None:
    """Draw the chosen heads for the text, <sos> included where there is one, up to the context, into one picture."""
    path = _output(arguments.output)
    lm = load(arguments.models, arguments.vocab, arguments.epoch)
    use_threads()
    seen = lm.attention(arguments.text)
    try:
        drawing = seen.plot(arguments.layer, arguments.head)
    except InputError as error:  # it names the layer or the head
        raise InputError(f"--{error}") from None
    kind = Path(arguments.output).suffix.lower()[1:]
    nothing = {"Software": None} if kind == "png" else {"Date": None, "Creator": None}
    with rc_context(STYLE), atomic_write(path, "wb") as target:
        drawing.savefig(target, format=kind, dpi=150, facecolor="white", metadata=nothing)
    heads = len(drawing.axes)
    print(
        f"{arguments.output}: {'1 head' if heads == 1 else f'{heads} heads'}, {len(seen.words)} tokens"
    )
