"""Heat maps: what each attention head attends to in one sentence.

Colour is one hue whose opacity is the square root of the weight. Small weights stay visible, on a
light and on a dark page.
"""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, PowerNorm, to_rgba
from matplotlib.figure import Figure

from tinylm.report.drawing import HEAT, SOFT
from tinylm.report.wording import short

SCALE = LinearSegmentedColormap.from_list("heat", [to_rgba(HEAT, 0.0), to_rgba(HEAT)])
NORM = PowerNorm(0.5, vmin=0, vmax=1, clip=True)
_WORD, _LARGEST = 0.13, 8.5  # inches: of a word at the axis, of the largest map


def draw_sentence(
    words: Sequence[str],
    maps: np.ndarray,
    after: str = "",
    titles: Sequence[Sequence[str]] | None = None,
) -> Figure:
    """Maps (rows, columns, T, T) over the same words, which stand at the outer axes.

    By default a row is a layer and a column a head. `after`: the title of the whole picture. Long
    texts have a name only at every second or third word.
    """
    rows, columns, tokens = maps.shape[:3]
    side = min(max(1.5, _WORD * tokens), _LARGEST)
    step = math.ceil(_WORD * tokens / side)
    positions = range(0, tokens, step)
    names = [short(words[position]) for position in positions]
    edge = 0.5 + 0.065 * max(map(len, names), default=0)
    drawing = Figure(figsize=(edge + columns * (side + 0.12), edge + rows * (side + 0.25)))
    grid = drawing.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for (row, column), axes in np.ndenumerate(grid):
        axes.imshow(maps[row, column], cmap=SCALE, norm=NORM)
        title = titles[row][column] if titles else f"layer {row + 1}, head {column + 1}"
        axes.set_title(title, fontsize=8, fontweight="normal", pad=3)
        axes.set_xticks(positions, names, rotation=90, fontsize=7)
        axes.set_yticks(positions, names, fontsize=7)
        axes.grid(visible=False)
        axes.label_outer()
    drawing.suptitle(after, fontsize=9)
    drawing.supxlabel("attends to", color=SOFT, fontsize=9)
    drawing.supylabel("token", color=SOFT, fontsize=9)
    return drawing
