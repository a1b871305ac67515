"""tinylm attention: heat maps of a trained model's heads for one text."""

import argparse
import warnings
from pathlib import Path

from tinylm.base.config import InputError
from tinylm.base.files import atomic_write
from tinylm.decoding.texts import encode_prompt
from tinylm.exchange.loading import load
from tinylm.scoring.attention_maps import look

SUFFIXES = (".png", ".svg")
MAX_TOKENS = 64  # more words make a picture that nobody can read


def _output(name: str) -> Path:
    path = Path(name)
    if path.is_dir():
        raise InputError(f"--output {name} is a folder; allowed: a file, {' | '.join(SUFFIXES)}")
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"--output {name}: unknown kind {path.suffix!r}; allowed: {' | '.join(SUFFIXES)}")
    return path


def _chosen(option: str, number: int | None, count: int) -> list[int]:
    """Indices of the chosen layer or head, or of all."""
    if number is None:
        return list(range(count))
    if not 1 <= number <= count:
        raise InputError(f"{option} {number}; allowed: 1 to {count}")
    return [number - 1]


def run(arguments: argparse.Namespace) -> None:
    """Draw the chosen heads for the text's first tokens, <sos> included where there is one, into one picture."""
    path = _output(arguments.output)
    model, tokenizer, _ = load(arguments.models, arguments.vocab)
    layers = _chosen("--layer", arguments.layer, model.settings.layers)
    heads = _chosen("--head", arguments.head, model.settings.heads)
    ids = encode_prompt(tokenizer, arguments.text, "the text")
    room = min(MAX_TOKENS, model.settings.context)
    if len(ids) > room:
        warnings.warn(f"the text has {len(ids)} tokens; the first {room} are drawn", stacklevel=1)
    maps = look(model, ids[:room]).maps[layers][:, heads]

    from matplotlib import rc_context

    from tinylm.reporting.drawing import STYLE
    from tinylm.reporting.heatmaps import draw_sentence

    words = [tokenizer.tokens[token] for token in ids[:room]]
    with rc_context(STYLE):
        drawing = draw_sentence(words, maps)
        panels = [(layer, head) for layer in layers for head in heads]
        for axes, (layer, head) in zip(drawing.axes, panels, strict=True):
            axes.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=8, pad=3)
        kind = path.suffix.lower()[1:]
        nothing = {"Software": None} if kind == "png" else {"Date": None, "Creator": None}
        with atomic_write(path, "wb") as target:
            drawing.savefig(target, format=kind, dpi=150, facecolor="white", metadata=nothing)
    shown = "1 head" if len(panels) == 1 else f"{len(panels)} heads"
    print(f"{path}: {shown}, {len(words)} tokens")
