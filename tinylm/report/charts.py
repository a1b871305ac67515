"""Line charts and bar charts in the report's style."""

from collections.abc import Callable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogFormatterSciNotation, LogLocator, ScalarFormatter

from tinylm.report.drawing import MARKERS, SERIES, SOFT, add_legend, count_axis, new_axes

Curves = Mapping[str, tuple[list[float], list[float]]]
Bands = Mapping[
    str, tuple[list[float], list[float], list[float]]
]  # positions, lows, highs of a curve, by its name
_SHADE = 0.22  # opacity of a band
_MANY = 24  # points; a longer curve is drawn without markers


def draw_curves(
    curves: Curves,
    title: str,
    x_label: str,
    y_label: str,
    *,
    log_y: bool = False,
    from_zero: bool = False,
    faint: str = "",
    bands: Bands | None = None,
    counted_x: bool = True,
) -> Figure:
    """One line per curve; the curve named `faint` is thin (noisier than the others).

    Bands are shaded behind the curves whose names they have. counted_x: positions are whole numbers (of tokens, updates).
    """
    drawing, axes = new_axes(title, x_label, y_label)
    for number, (name, (xs, ys)) in enumerate(curves.items()):
        colour = SERIES[number % len(SERIES)]
        marker = MARKERS[number % len(MARKERS)] if len(xs) <= _MANY else ""
        width = 0.9 if name == faint else 1.8
        axes.plot(xs, ys, color=colour, linewidth=width, marker=marker, markersize=4, label=name)
        if bands and name in bands:
            axes.fill_between(*bands[name], color=colour, alpha=_SHADE, linewidth=0)
    if log_y:
        _log_axis(axes)
    elif from_zero:
        highs = [max(ys) for _, ys in curves.values()] + [
            max(highs) for *_, highs in (bands or {}).values()
        ]
        axes.set_ylim(0, 1.1 * max(highs) or 1)
    if counted_x:
        count_axis(axes)
    _wide_enough(axes, curves)
    if len(curves) > 1:
        add_legend(drawing, list(curves))
    return drawing


def _wide_enough(axes: Axes, curves: Curves) -> None:
    axes.margins(x=0.02)
    positions = {x for xs, _ in curves.values() for x in xs}
    if len(positions) == 1:  # one whole number: ticks beside it would be fractions
        (x,) = positions
        axes.set_xlim(x - 1, x + 1)


def _log_axis(axes: Axes) -> None:
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    if high < 1e4 * low:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=12))
        axes.yaxis.set_major_formatter(ScalarFormatter())
    else:  # of a run that began far worse than a guess; between so many powers of ten no number would be shown
        axes.yaxis.set_major_locator(LogLocator(numticks=8))
        axes.yaxis.set_major_formatter(LogFormatterSciNotation())
    axes.yaxis.minorticks_off()


def mark_x(drawing: Figure, x: float, text: str) -> Figure:
    """A dashed vertical line with a name, if the curve's range reaches it."""
    axes = drawing.axes[0]
    low, high = axes.get_xlim()
    if low <= x <= high:
        axes.axvline(x, color=SOFT, linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(
            text,
            (x, 1),
            (4, -2),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            color=SOFT,
            va="top",
        )
    return drawing


Bar = tuple[str, float]


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
    positions = list(range(len(bars)))[::-1]
    colours = [SERIES[1] if name == strong else SERIES[0] for name in names]
    axes.barh(positions, values, color=colours, height=0.62)
    axes.set_yticks(positions, names)
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
    for position, value in zip(positions, values):
        axes.annotate(
            number(value), (value, position), (4, 0), textcoords="offset points", va="center"
        )
    return drawing


def draw_intervals(
    rows: Sequence[tuple[str, float, float, float, float | None]],
    title: str,
    x_label: str,
    names: tuple[str, str],
    *,
    chance: float,
) -> Figure:
    """From top to bottom a share with its interval, (name, value, low, high), and another model's share.

    names: what the two are called below the picture; chance: where a dashed line is.
    """
    drawing, axes = new_axes(title, x_label, "", (6.0, 1.2 + 0.26 * len(rows)))
    positions = list(range(len(rows)))[::-1]
    axes.axvline(chance, color=SOFT, linewidth=1, linestyle=(0, (4, 3)))
    axes.hlines(
        positions,
        [row[2] for row in rows],
        [row[3] for row in rows],
        color=SERIES[0],
        linewidth=2.4,
    )
    axes.plot(
        [row[1] for row in rows],
        positions,
        linestyle="",
        marker="o",
        color=SERIES[0],
        label=names[0],
    )
    others = [
        (row[4], position)
        for row, position in zip(rows, positions, strict=True)
        if row[4] is not None
    ]
    if others:
        xs, ys = zip(*others, strict=True)
        axes.plot(
            xs,
            ys,
            linestyle="",
            marker="D",
            markersize=5,
            markerfacecolor="none",
            color=SERIES[1],
            label=names[1],
        )
    axes.set_yticks(positions, [row[0] for row in rows])
    axes.set_xlim(min(0.4, *(row[2] for row in rows), *(value for value, _ in others)) - 0.02, 1.02)
    axes.grid(False, axis="y")
    add_legend(drawing, names)
    return drawing


def draw_points(
    points: Sequence[tuple[str, float, float]], title: str, x_label: str, y_label: str
) -> Figure:
    """One named point each, (name, x, y): a trade-off of two quantities."""
    drawing, axes = new_axes(title, x_label, y_label)
    for number, (name, x, y) in enumerate(points):
        marker = MARKERS[number % len(MARKERS)]
        colour = SERIES[number % len(SERIES)]
        axes.plot([x], [y], linestyle="", marker=marker, markersize=7, color=colour, label=name)
    axes.margins(0.22, 0.2)
    axes.set_xlim(left=0, right=max(x for _, x, _ in points) * 1.25)
    axes.locator_params(axis="x", nbins=6)
    add_legend(drawing, [name for name, _, _ in points])
    return drawing
