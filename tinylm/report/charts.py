"""Line charts and points, drawn from a frame."""

from itertools import cycle

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator

from tinylm.report.drawing import Picture
from tinylm.report.wording import number

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_SHADE = 0.22  # opacity of a band
_MANY = 24  # points; a longer line is drawn without markers


def draw_lines(
    frame: pd.DataFrame,
    title: str,
    x_label: str,
    y_label: str,
    *,
    log_y: bool = False,
    from_zero: bool = False,
) -> Picture:
    """One line for each series, with a band where it has an interval; one row is a point.

    Args:
        frame: columns x, series and value; low and high too where lines have bands.
        from_zero: whether the vertical axis starts at zero.
    """
    drawing = Figure()
    axes = drawing.add_subplot()
    axes.set(title=title, xlabel=x_label, ylabel=y_label)
    ends = []
    for (name, rows), marker in zip(frame.groupby("series", sort=False), cycle(MARKERS)):
        x = rows["x"]
        values = rows["value"]
        (line,) = axes.plot(x, values, label=name)
        line.set_marker(marker if len(rows) <= _MANY else "")
        if len(rows) == 1:
            line.set_linestyle("")  # a point has no line in the legend
        if "low" in rows:
            colour = line.get_color()
            axes.fill_between(x, rows["low"], rows["high"], color=colour, alpha=_SHADE, linewidth=0)
        ends.append(f"{name} from {number(values.iloc[0])} to {number(values.iloc[-1])}")
    axes.margins(0.05, 0.08)
    if (frame["x"] % 1 == 0).all():  # tokens, updates, layers: no ticks between
        axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    if log_y:
        _label_logarithms(axes)
    if from_zero:
        axes.set_ylim(bottom=0)
    if len(ends) > 1:
        drawing.legend(loc="outside lower center", ncols=3)
    return Picture(drawing, f"{title}, {y_label} against {x_label}: {'; '.join(ends)}.")


def _label_logarithms(axes: Axes) -> None:
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    labelled = (1, 2, 5) if high < 1e4 * low else (1,)
    axes.yaxis.set_major_locator(LogLocator(subs=labelled, numticks=12))
    axes.yaxis.set_major_formatter(EngFormatter(sep=" "))
    axes.minorticks_off()
