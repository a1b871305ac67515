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
    """Maps (layers, heads, Q, T) over the same T words, which label the outer edges.

    The rows of a map are those of the last Q words. The cells of a single map are square; several
    maps are square as a whole, at most four in a row. Where a word has too little space, only every
    second or third one is labelled, with the last one among them.

    after: the title of the whole picture.
    titles: of each map, if not all are drawn.
    """
    layers, heads, queries, tokens = maps.shape
    lines = math.ceil(heads / _MAPS)  # of a layer
    columns = math.ceil(heads / lines)
    rows = layers * lines
    height = _side(queries)
    width = _side(tokens) if layers * heads == 1 else height
    attended, column_names = _labels(words, width)
    attending, row_names = _labels(words[tokens - queries :], height)
    edge = 0.6 + 0.06 * max(map(len, column_names + row_names), default=0)
    lefts = np.arange(columns) * (width + _GAP)
    tops = np.arange(rows) * (height + _TITLE)
    size = (edge + 0.5 + columns * (width + _GAP), edge + rows * (height + _TITLE))
    drawing = Figure(figsize=size)
    axes = drawing.add_subplot()  # one for all maps: one for each takes four times as long
    for layer in range(layers):
        for head in range(heads):
            left = lefts[head % columns]
            top = tops[layer * lines + head // columns]
            edges = (left, left + width, top + height, top)
            axes.imshow(maps[layer, head], cmap=SCALE, norm=NORM, extent=edges)
            title = titles[layer][head] if titles else f"layer {layer + 1}, head {head + 1}"
            axes.text(left, top - 0.05, title, fontsize=_LABELS)
    xticks = np.add.outer(lefts, attended).ravel()
    yticks = np.add.outer(tops, attending).ravel()
    axes.set_xticks(xticks, column_names * columns, rotation=90, fontsize=_LABELS)
    axes.set_yticks(yticks, row_names * rows, fontsize=_LABELS)
    axes.set(xlim=(0, lefts[-1] + width), ylim=(tops[-1] + height, -_TITLE), aspect="auto")
    axes.spines[:].set_visible(False)
    axes.grid(visible=False)
    scale = drawing.colorbar(ScalarMappable(NORM, SCALE), ax=axes, fraction=0.02, aspect=40)
    scale.set_label("attention weight", fontsize=_LABELS)
    scale.ax.tick_params(labelsize=_LABELS)
    axes.set_xlabel("token attended to", fontsize=_LABELS)
    axes.set_ylabel("token that attends", fontsize=_LABELS)
    drawing.suptitle(after, fontsize=9)
    return drawing


def _side(tokens: int) -> float:
    """The side of a map along an axis with so many tokens, in inches."""
    return min(_WORD * max(tokens, 11), _LARGEST)


def _labels(words: Sequence[str], side: float) -> tuple[np.ndarray, list[str]]:
    """Where the labels of an axis stand, in inches, and what they say; the last word has one."""
    step = math.ceil(_WORD * len(words) / side)
    named = range((len(words) - 1) % step, len(words), step)
    places = (np.array(named) + 0.5) * side / len(words)
    return places, [token_label(words[place]) for place in named]
