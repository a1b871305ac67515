"""Bar and point figures: baselines, parameters, time, beams."""

from collections.abc import Callable, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, ScalarFormatter

from tinylm.reporting.drawing import MARKERS, SERIES, new_axes

Bar = tuple[str, float]
_LETTER, _LINE = 6.2, 11.0  # width of a letter, height of a line, in points
_OFFSETS = (0, 8, -8, 14, -14, 24, -24, 36, -36)  # offsets of a name above or below its point


def draw_bars(
    bars: Sequence[Bar],
    title: str,
    x_label: str,
    number: Callable[[float], str],
    *,
    log_x: bool = False,
    strong: str = "",
    engineering: bool = False,
) -> Figure:
    """Horizontal bars from top to bottom, each with its value; the bar named `strong` stands out."""
    drawing, axes = new_axes(title, x_label, "", (5.0, 0.9 + 0.34 * len(bars)))
    names, values = [name for name, _ in bars], [value for _, value in bars]
    places = list(range(len(bars)))[::-1]
    colours = [SERIES[1] if name == strong else SERIES[0] for name in names]
    axes.barh(places, values, color=colours, height=0.62)
    axes.set_yticks(places, names)
    axes.grid(False, axis="y")
    if log_x:
        axes.set_xscale("log")
        axes.set_xlim(left=1, right=max(values) * 6)
        axes.xaxis.set_major_locator(LogLocator(numticks=8))
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.minorticks_off()
    else:
        axes.set_xlim(left=0, right=max(values) * 1.25 or 1)
        axes.locator_params(axis="x", nbins=5)
        if engineering:
            axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
    for place, value in zip(places, values):
        axes.annotate(number(value), (value, place), (4, 0), textcoords="offset points", va="center")
    return drawing


def draw_points(points: Sequence[tuple[str, float, float]], title: str, x_label: str, y_label: str) -> Figure:
    """One named point each, (name, x, y): a trade-off of two quantities."""
    drawing, axes = new_axes(title, x_label, y_label)
    for number, (_, x, y) in enumerate(points):
        marker = MARKERS[number % len(MARKERS)]
        axes.plot([x], [y], linestyle="", marker=marker, markersize=7, color=SERIES[number % len(SERIES)])
    axes.margins(0.22, 0.2)
    axes.set_xlim(left=0, right=max(x for _, x, _ in points) * 1.25)
    axes.locator_params(axis="x", nbins=6)
    drawing.draw_without_rendering()
    places = [axes.transData.transform((x, y)) * 72 / drawing.dpi for _, x, y in points]
    boxes = [(x - 5, x + 5, y) for x, y in places]  # left, right, middle of each marker and name, in points
    for number, ((name, x, y), place) in enumerate(zip(points, places)):
        left, middle = place[0] + 7, place[1]
        width = _LETTER * len(name)
        offset = min(_OFFSETS, key=lambda up: (_clashes(boxes, left, left + width, middle + up), abs(up)))
        boxes.append((left, left + width, middle + offset))
        axes.annotate(
            name,
            (x, y),
            (7, offset),
            textcoords="offset points",
            va="center",
            color=SERIES[number % len(SERIES)],
            fontweight="bold",
        )
    return drawing


def _clashes(boxes: Sequence[tuple[float, float, float]], left: float, right: float, middle: float) -> int:
    return sum(left < end and start < right and abs(middle - other) < _LINE for start, end, other in boxes)
