"""Line figures: losses, rates, accumulation, caches, checkpointing."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, ScalarFormatter

from tinylm.reporting.drawing import MARKERS, SERIES, SOFT, count_axis, label_ends, new_axes

Curves = Mapping[str, tuple[list[float], list[float]]]
Bands = Mapping[str, tuple[list[float], list[float], list[float]]]  # places, lows, highs of a curve, by its name
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
) -> Figure:
    """One line per curve, with its name at its end; the curve named `faint` is thin (noisier than the others).

    Bands are shaded behind the curves whose names they have.
    """
    drawing, axes = new_axes(title, x_label, y_label)
    ends = []
    for number, (name, (xs, ys)) in enumerate(curves.items()):
        colour = SERIES[number % len(SERIES)]
        marker = MARKERS[number % len(MARKERS)] if len(xs) <= _MANY else ""
        width = 0.9 if name == faint else 1.8
        axes.plot(xs, ys, color=colour, linewidth=width, marker=marker, markersize=4)
        if bands and name in bands:
            axes.fill_between(*bands[name], color=colour, alpha=_SHADE, linewidth=0)
        ends.append((xs[-1], ys[-1], name, colour))
    if log_y:
        _log_axis(axes)
    elif from_zero:
        axes.set_ylim(0, 1.1 * max(max(ys) for _, ys in curves.values()) or 1)
    count_axis(axes)
    _wide_enough(axes, curves)
    if len(ends) > 1:
        label_ends(axes, ends)
    return drawing


def _wide_enough(axes: Axes, curves: Curves) -> None:
    axes.margins(x=0.02)
    places = {x for xs, _ in curves.values() for x in xs}
    if len(places) == 1:  # one whole number: ticks beside it would be fractions
        (x,) = places
        axes.set_xlim(x - 1, x + 1)


def _log_axis(axes: Axes) -> None:
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=12))
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.yaxis.minorticks_off()


def mark_x(drawing: Figure, x: float, text: str) -> Figure:
    """A dashed vertical line with a name, if the curve's range reaches it."""
    axes = drawing.axes[0]
    low, high = axes.get_xlim()
    if low <= x <= high:
        axes.axvline(x, color=SOFT, linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(
            text, (x, 1), (4, -2), xycoords=("data", "axes fraction"), textcoords="offset points", color=SOFT, va="top"
        )
    return drawing
