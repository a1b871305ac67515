"""Heat maps: what each attention head attends to in one sentence.

Colour is one hue whose opacity is the square root of the weight. Small weights stay visible, on a
light and on a dark page.
"""

import math
from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, PowerNorm, to_rgba
from matplotlib.figure import Figure

from tinylm.report.drawing import HEAT, SOFT
from tinylm.report.wording import short

SCALE = LinearSegmentedColormap.from_list("heat", [to_rgba(HEAT, 0.0), to_rgba(HEAT)], N=64)
NORM = PowerNorm(0.5, vmin=0, vmax=1, clip=True)
_WORD, _LARGEST = 0.1, 6.5  # inches: of a word at the axis, of the largest map
_MAPS = 4  # maps in a row, which the words at the axes stay readable with
_WIDE = 7.33  # inches: a wider picture fills a page of the PDF
_PAGE = 1.415  # height of a page divided by its width


def draw_sentence(
    words: Sequence[str],
    maps: np.ndarray,
    after: str = "",
    titles: Sequence[Sequence[str]] | None = None,
) -> Figure:
    """Maps (layers, heads, T, T) over the same words, which stand at the outer axes.

    Instead of layers, the first dimension may have the checkpoints of one layer.
    The heads of a layer are in one row; without `titles` in several rows of at most four. `after`:
    the title of the whole picture. Only every second or third word of long texts has a name.
    """
    layers, heads, tokens = maps.shape[:3]
    lines = 1 if titles else math.ceil(heads / _MAPS)  # of a layer
    columns = math.ceil(heads / lines)
    side = min(max(1.5, _WORD * tokens), _LARGEST)
    zoom = max(1.0, columns / _MAPS)  # more maps are printed smaller, so fewer words are larger
    step = math.ceil(zoom * _WORD * tokens / side)
    positions = range(0, tokens, step)
    names = [short(words[position]) for position in positions]
    edge = zoom * (0.6 + 0.055 * max(map(len, names), default=0))
    width = edge + 0.5 + columns * (side + 0.12)
    height = edge + layers * lines * (side + 0.25)
    if width > _WIDE:
        height = max(height, _PAGE * width)
    drawing = Figure(figsize=(width, height))
    grid = drawing.subplots(layers * lines, columns, squeeze=False)
    for layer, panels in enumerate(grid.reshape(layers, -1)):
        for head, (axes, weights) in enumerate(zip_longest(panels, maps[layer])):
            if weights is None:
                axes.remove()
                continue
            title = titles[layer][head] if titles else f"layer {layer + 1}, head {head + 1}"
            axes.imshow(weights, cmap=SCALE, norm=NORM, aspect="auto")
            axes.set_title(title, fontsize=7 * zoom, fontweight="normal", pad=3)
            axes.grid(visible=False)
            axes.set(xticks=[], yticks=[])
            if axes in grid[-1]:
                axes.set_xticks(positions, names, rotation=90, fontsize=6 * zoom)
            if axes in grid[:, 0]:
                axes.set_yticks(positions, names, fontsize=6 * zoom)
    scale = drawing.colorbar(ScalarMappable(NORM, SCALE), ax=drawing.axes, fraction=0.02, aspect=40)
    scale.set_label("attention weight, 0 to 1 (colour: its square root)", fontsize=8 * zoom)
    drawing.suptitle(after, fontsize=9 * zoom)
    drawing.supxlabel("token attended to", color=SOFT, fontsize=9 * zoom)
    drawing.supylabel("token that attends", color=SOFT, fontsize=9 * zoom)
    return drawing
