"""Line charts and points, drawn from a frame."""

from collections.abc import Collection, Iterable
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator

from tinylm.report.drawing import Picture
from tinylm.report.wording import number

WIDTH, HEIGHT = 3.6, 2.5  # inches: two pictures side by side in print
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_MANY = 24  # points; a longer line is drawn without markers


class Labels(NamedTuple):
    """The title of a chart, and the labels of its axes."""

    title: str
    x: str
    y: str

    def described(self, values: Iterable[str]) -> str:
        """A description of the chart for readers who cannot see it."""
        return f"{self.title}, {self.y} against {self.x}: {'; '.join(values)}."


def draw_lines(
    frame: pd.DataFrame,
    labels: Labels,
    *,
    log_y: bool = False,
    from_zero: bool = False,
    ticks_at_points: bool = False,
    unconnected: Collection[str] = (),
    height: float = HEIGHT,
) -> Picture:
    """One line for each series.

    Args:
        frame: columns x, series and value.
        from_zero: whether the vertical axis starts at zero.
        ticks_at_points: whether the ticks across are the values of x, unless some are close.
        unconnected: series whose points are not joined, because nothing is known between them.
        height: of the picture in inches.
    """
    drawing, axes = _axes(labels, height)
    ends = []
    for (name, rows), marker in zip(frame.groupby("series", sort=False), cycle(MARKERS)):
        values = rows["value"]
        (line,) = axes.plot(rows["x"], values, label=name)
        line.set_marker(marker if len(rows) <= _MANY else "")
        if name in unconnected:
            line.set_linestyle("")
        ends.append(f"{name} from {number(values.iloc[0])} to {number(values.iloc[-1])}")
    if (frame["x"] % 1 == 0).all():  # tokens, updates, layers: no ticks between
        axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    places = np.unique(frame["x"])
    if ticks_at_points and (np.diff(places) >= np.ptp(places) / 6).all():  # room for a label each
        axes.set_xticks(places)
    if log_y:
        _label_logarithms(axes)
    if from_zero:
        axes.set_ylim(bottom=0)
    if len(ends) > 1:
        drawing.legend(loc="outside lower center", ncols=2)
    return Picture(drawing, labels.described(ends))


def draw_points(frame: pd.DataFrame, labels: Labels) -> Picture:
    """One point for each row, with the range of x over its trials.

    Names are in a legend, because they may not fit beside the points.

    frame: columns x, low, high, series and value, which is never negative.
    """
    drawing, axes = _axes(labels)
    rows: list[Any] = list(frame.itertuples())
    for row, marker in zip(rows, cycle(MARKERS)):
        error = [[row.x - row.low], [row.high - row.x]]
        axes.errorbar(row.x, row.value, xerr=error, marker=marker, linestyle="", label=row.series)
    axes.margins(x=0.15)
    highest = frame["value"].max() or 0.1  # an axis needs a height where all values are zero
    axes.set_ylim(-0.05 * highest, 1.1 * highest)  # markers at both ends are whole
    axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
    drawing.legend(loc="outside lower center", ncols=2)
    points = [f"{row.series} {number(row.value)} at {number(row.x)}" for row in rows]
    return Picture(drawing, labels.described(points))


def _axes(labels: Labels, height: float = HEIGHT) -> tuple[Figure, Axes]:
    drawing = Figure(figsize=(WIDTH, height))
    axes = drawing.add_subplot()
    axes.set(title=labels.title, xlabel=labels.x, ylabel=labels.y)
    axes.margins(0.05, 0.08)
    return drawing, axes


def _label_logarithms(axes: Axes) -> None:
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    labelled = (1, 2, 5) if high < 1e4 * low else (1,)
    axes.yaxis.set_major_locator(LogLocator(subs=labelled, numticks=12))
    axes.yaxis.set_major_formatter(EngFormatter(sep=" "))
    axes.minorticks_off()
