"""Heat maps: what each attention head attends to in one sentence, and what it tends to attend to in many.

Colour is one hue whose opacity is the square root of the weight: small weights stay visible, and the same picture
serves a light and a dark page.
"""

import base64
import io
import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, PowerNorm, to_rgba
from matplotlib.figure import Figure
from matplotlib.image import imsave

from tinylm.report.drawing import HEAT, INK, SOFT
from tinylm.report.wording import ABSENT, MINUS, escape, short

SCALE = LinearSegmentedColormap.from_list("heat", [(*to_rgba(HEAT)[:3], 0.0), to_rgba(HEAT)])
NORM = PowerNorm(0.5, vmin=0, vmax=1, clip=True)
_CELL, _LETTER = 12, 5.6  # in units of a head's drawing
_LINE, _LARGEST = 0.13, 8.5  # inches: of a word at the axis, and of a head's map


def head_svg(weights: np.ndarray, words: Sequence[str], title: str) -> str:
    """One head's map (T, T) as a small inline SVG: queries downwards, keys to the right, words at both axes."""
    labels = [escape(short(word)) for word in words]
    margin = round(8 + _LETTER * max((len(short(word)) for word in words), default=0))
    side = _CELL * len(words)
    target = io.BytesIO()
    imsave(target, SCALE(NORM(weights)), format="png", metadata={"Software": None})  # type: ignore[dict-item]
    data = base64.b64encode(target.getvalue()).decode("ascii")
    rows = "".join(
        f'<text x="{margin - 4}" y="{margin + _CELL * (i + 0.75):g}" text-anchor="end">{label}</text>'
        for i, label in enumerate(labels)
    )
    columns = "".join(
        f'<text transform="translate({margin + _CELL * (i + 0.75):g} {margin - 4}) rotate(-90)">{label}</text>'
        for i, label in enumerate(labels)
    )
    return (
        f'<svg class="head" role="img" aria-label="{escape(title)}" width="{margin + side + 2}" '
        f'viewBox="0 0 {margin + side + 2} {margin + side + 2}">{rows}{columns}'
        f'<rect x="{margin}" y="{margin}" width="{side}" height="{side}"/>'
        f'<image x="{margin}" y="{margin}" width="{side}" height="{side}" preserveAspectRatio="none" '
        f'href="data:image/png;base64,{data}"/></svg>'
    )


def draw_sentence(words: Sequence[str], maps: np.ndarray, after: str = "") -> Figure:
    """All heads of all layers for one sentence, maps (layers, heads, T, T): one row per layer, words at the outer axes.

    `after`: what the model expects next, as the title. The picture grows with the text up to `_LARGEST`; of a longer
    text only every second, third ... word is written.
    """
    layers, heads = maps.shape[:2]
    side = min(max(1.5, _LINE * len(words)), _LARGEST)
    places = range(0, len(words), max(math.ceil(_LINE * len(words) / side), 1))
    names = [short(words[place]) for place in places]
    edge = 0.35 + 0.065 * max(map(len, names), default=0)
    gap, head_room = 0.12, 0.28 + (0.3 if after else 0)
    width = edge + heads * (side + gap) + 0.1
    height = edge + layers * (side + 0.25) + head_room
    drawing = Figure(figsize=(width, height))
    drawing.set_layout_engine(
        "none"
    )  # placed by hand: a layout engine takes seconds for so many panels
    for layer, head in np.ndindex(layers, heads):
        left, bottom = edge + head * (side + gap), edge + (layers - 1 - layer) * (side + 0.25)
        axes = drawing.add_axes((left / width, bottom / height, side / width, side / height))
        axes.imshow(
            maps[layer, head], cmap=SCALE, norm=NORM, interpolation="nearest", aspect="auto"
        )
        axes.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=8, pad=3)
        axes.grid(False)
        axes.set_xticks([])
        axes.set_yticks([])
        if layer == layers - 1:
            axes.set_xticks(places, names, rotation=90, fontsize=7)
        if head == 0:
            axes.set_yticks(places, names, fontsize=7)
    if after:
        drawing.suptitle(after, fontsize=9, y=1 - 0.08 / height, va="top")
    drawing.supxlabel("attends to", color=SOFT, fontsize=9, y=0.05 / height, va="bottom")
    drawing.supylabel("token", color=SOFT, fontsize=9, x=0.05 / width, ha="left")
    return drawing


def draw_matrix(values: np.ndarray, title: str, *, weight: bool) -> Figure:
    """A figure of every head (layers, heads), each cell with its value, weights in percent.

    Weights are coloured from 0 to 1, other figures from 0 to the largest.
    """
    layers, heads = values.shape
    drawing = Figure(figsize=(max(5.0, 0.47 * heads + 0.8), 0.34 * layers + 1.0))
    axes = drawing.add_subplot()
    known = np.nan_to_num(values)
    axes.imshow(
        known / (1 if weight else max(known.max(), 1e-9)), cmap=SCALE, norm=NORM, aspect="auto"
    )
    axes.set_title(title)
    axes.set_xlabel("head")
    axes.set_ylabel("layer")
    _number_cells(axes, layers, heads)
    for layer, head in np.ndindex(layers, heads):
        value = values[layer, head]
        text = ABSENT if np.isnan(value) else f"{100 * value:.0f}" if weight else f"{value:.1f}"
        axes.text(head, layer, text, ha="center", va="center", fontsize=8, color=INK)
    return drawing


def draw_named(values: np.ndarray, names: np.ndarray, title: str) -> Figure:
    """A figure of every head (layers, heads) as colour from 0 to the largest, each cell with its name and value."""
    layers, heads = values.shape
    drawing = Figure(figsize=(max(5.0, 1.05 * heads + 0.6), 0.52 * layers + 1.0))
    axes = drawing.add_subplot()
    known = np.nan_to_num(values)
    axes.imshow(known / max(known.max(), 1e-9), cmap=SCALE, norm=NORM, aspect="auto")
    axes.set_title(title)
    axes.set_xlabel("head")
    axes.set_ylabel("layer")
    _number_cells(axes, layers, heads)
    for layer, head in np.ndindex(layers, heads):
        value = values[layer, head]
        lines = [
            str(names[layer, head]),
            "" if np.isnan(value) else f"{value:+.3f}".replace("-", MINUS),
        ]
        axes.text(
            head,
            layer,
            "\n".join(line for line in lines if line),
            ha="center",
            va="center",
            fontsize=7.5,
        )
    return drawing


def _number_cells(axes: Axes, layers: int, heads: int) -> None:
    axes.set_xticks(range(heads), [str(number + 1) for number in range(heads)])
    axes.set_yticks(range(layers), [str(number + 1) for number in range(layers)])
    axes.grid(False)
