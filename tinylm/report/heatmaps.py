"""Heat maps: what each attention head attends to in one sentence.

Colour is one hue whose opacity is the square root of the weight. Small weights stay visible, on a
light and on a dark page.
"""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, PowerNorm, to_rgba
from matplotlib.figure import Figure

from tinylm.report.drawing import HEAT
from tinylm.report.wording import token_label

SCALE = LinearSegmentedColormap.from_list("heat", [to_rgba(HEAT, 0.0), to_rgba(HEAT)], N=64)
NORM = PowerNorm(0.5, vmin=0, vmax=1, clip=True)
# in inches
_WORD = 0.135  # at an axis
_LARGEST = 6.5  # side of a map
_GAP = 0.12  # between two maps
_TITLE = 0.28  # above a map
_LABELS = 9  # points
_MAPS = 4  # most maps per row with readable tick labels


def draw_sentence(
    words: Sequence[str],
    maps: np.ndarray,
    after: str = "",
    titles: Sequence[Sequence[str]] | None = None,
) -> Figure:
    """Maps (layers, heads, T, T) over the same words, which label the outer edges.

    A row has at most four heads of a layer. In long texts, only every second or third word is
    labelled. `after`: the title of the whole picture. `titles`: of each map, if not all are drawn.
    """
    layers, heads, tokens = maps.shape[:3]
    lines = math.ceil(heads / _MAPS)  # of a layer
    columns = math.ceil(heads / lines)
    rows = layers * lines
    side = min(_WORD * max(tokens, 11), _LARGEST)
    named = np.arange(0, tokens, math.ceil(_WORD * tokens / side))
    names = [token_label(words[position]) for position in named]
    edge = 0.6 + 0.06 * max(map(len, names), default=0)
    lefts = np.arange(columns) * (side + _GAP)
    tops = np.arange(rows) * (side + _TITLE)
    width = edge + 0.5 + columns * (side + _GAP)
    height = edge + rows * (side + _TITLE)
    drawing = Figure(figsize=(width, height))
    axes = drawing.add_subplot()  # one for all maps: one for each takes four times as long
    for layer in range(layers):
        for head in range(heads):
            left = lefts[head % columns]
            top = tops[layer * lines + head // columns]
            edges = (left, left + side, top + side, top)
            axes.imshow(maps[layer, head], cmap=SCALE, norm=NORM, extent=edges)
            title = titles[layer][head] if titles else f"layer {layer + 1}, head {head + 1}"
            axes.text(left, top - 0.05, title, fontsize=_LABELS)
    middles = (named + 0.5) * side / tokens
    xticks = np.add.outer(lefts, middles).ravel()
    yticks = np.add.outer(tops, middles).ravel()
    axes.set_xticks(xticks, names * columns, rotation=90, fontsize=_LABELS)
    axes.set_yticks(yticks, names * rows, fontsize=_LABELS)
    axes.set(xlim=(0, lefts[-1] + side), ylim=(tops[-1] + side, -_TITLE), aspect="auto")
    axes.spines[:].set_visible(False)
    axes.grid(visible=False)
    scale = drawing.colorbar(ScalarMappable(NORM, SCALE), ax=axes, fraction=0.02, aspect=40)
    scale.set_label("attention weight", fontsize=_LABELS)
    scale.ax.tick_params(labelsize=_LABELS)
    axes.set_xlabel("token attended to", fontsize=_LABELS)
    axes.set_ylabel("token that attends", fontsize=_LABELS)
    drawing.suptitle(after, fontsize=9)
    return drawing
