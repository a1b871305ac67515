"""Heat maps: what each attention head attends to in one sentence, and one number of every head.

Colour is one hue whose opacity is the square root of the weight: small weights stay visible, and the same picture
serves a light and a dark page.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, PowerNorm, to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tinylm.report.drawing import HEAT, INK, RULE, SOFT
from tinylm.report.wording import short

SCALE = LinearSegmentedColormap.from_list("heat", [(*to_rgba(HEAT)[:3], 0.0), to_rgba(HEAT)])
NORM = PowerNorm(0.5, vmin=0, vmax=1, clip=True)
# inches: of a word at the axis, the largest map, between two maps, of a map's title
_LINE, _LARGEST, _GAP, _TITLE = 0.13, 8.5, 0.12, 0.25


def draw_sentence(
    words: Sequence[str],
    maps: np.ndarray,
    after: str = "",
    titles: Sequence[Sequence[str]] | None = None,
) -> Figure:
    """Maps (rows, columns, T, T) over the same words, which stand at the outer axes.

    By default a row is a layer and a column a head. `after`: the title of the whole, such as what the model expects
    next. The picture grows with the text; of a very long one only every second, third ... word is written.
    """
    rows, columns, tokens = maps.shape[:3]
    side = min(max(1.5, _LINE * tokens), _LARGEST)
    positions = np.arange(0, tokens, max(math.ceil(_LINE * tokens / side), 1))
    names = [short(words[position]) for position in positions]
    edge = 0.35 + 0.065 * max(map(len, names), default=0)
    width = columns * (side + _GAP)
    height = rows * (side + _TITLE)
    head_room = 0.35 if after else 0.05
    drawing = Figure(figsize=(edge + width, edge + height + head_room))
    drawing.set_layout_engine("none")
    whole_width, whole_height = drawing.get_size_inches()
    box = edge / whole_width, edge / whole_height, width / whole_width, height / whole_height
    axes = drawing.add_axes(box)
    # All maps share one coordinate system of tokens: an axes for each would take seconds.
    right = (side + _GAP) / side * tokens
    down = (side + _TITLE) / side * tokens
    for row, column in np.ndindex(rows, columns):
        left, top = column * right, row * down
        extent = (left, left + tokens, top + tokens, top)
        axes.imshow(
            maps[row, column], cmap=SCALE, norm=NORM, interpolation="nearest", extent=extent
        )
        axes.add_patch(
            Rectangle((left, top), tokens, tokens, fill=False, color=RULE, linewidth=0.6)
        )
        title = titles[row][column] if titles else f"layer {row + 1}, head {column + 1}"
        middle = left + tokens / 2
        axes.text(middle, top - 0.1 * down / side, title, ha="center", va="bottom", fontsize=8)
    axes.set_xlim(0, columns * right)
    axes.set_ylim((rows - 1) * down + tokens, tokens - down)
    axes.set_aspect("auto")
    axes.grid(False)
    axes.spines[:].set_visible(False)
    starts = positions + 0.5
    across = np.concatenate([column * right + starts for column in range(columns)])
    axes.set_xticks(across, names * columns, rotation=90, fontsize=7)
    below = np.concatenate([row * down + starts for row in range(rows)])
    axes.set_yticks(below, names * rows, fontsize=7)
    axes.tick_params(length=0)
    if after:
        drawing.suptitle(after, fontsize=9, y=1 - 0.08 / whole_height, va="top")
    drawing.supxlabel("attends to", color=SOFT, fontsize=9, y=0.05 / whole_height, va="bottom")
    drawing.supylabel("token", color=SOFT, fontsize=9, x=0.05 / whole_width, ha="left")
    return drawing


def draw_matrix(values: np.ndarray, texts: np.ndarray, title: str) -> Figure:
    """A number of every head (layers, heads) as colour from 0 to the largest, each cell with its text."""
    layers, heads = values.shape
    drawing = Figure(figsize=(max(5.0, 1.05 * heads + 0.6), 0.52 * layers + 1.0))
    axes = drawing.add_subplot()
    numbers = np.nan_to_num(values)
    axes.imshow(numbers / max(numbers.max(), 1e-9), cmap=SCALE, norm=NORM, aspect="auto")
    axes.set_title(title)
    axes.set_xlabel("head")
    axes.set_ylabel("layer")
    axes.set_xticks(range(heads), [str(number + 1) for number in range(heads)])
    axes.set_yticks(range(layers), [str(number + 1) for number in range(layers)])
    axes.grid(False)
    centred: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 7.5, "color": INK}
    for layer, head in np.ndindex(layers, heads):
        axes.text(head, layer, str(texts[layer, head]), **centred)
    return drawing
