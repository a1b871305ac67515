"""Line charts, bar charts and points, each drawn from one frame."""

from collections.abc import Callable, Sequence
from itertools import cycle

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator

from tinylm.report.drawing import INK, SERIES, SOFT, Picture, new_axes
from tinylm.report.wording import number

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHED = (0, (4, 3))
_SHADE = 0.22  # opacity of a band
_MANY = 24  # points; a longer line is drawn without markers


def draw_lines(
    frame: pd.DataFrame,
    title: str,
    x_label: str,
    y_label: str,
    *,
    log_x: bool = False,
    log_y: bool = False,
    from_zero: bool = False,
    faint: str = "",
    counted_x: bool = True,
    mark: tuple[float, str] | None = None,
) -> Picture:
    """One line for each series, with a band behind it where it has an interval.

    Args:
        frame: columns x, series and value; low and high too where lines have bands.
        faint: the series that is thin, because it is noisier than the others.
        counted_x: x counts tokens or updates, so that its ticks are whole numbers.
        mark: an x and the name of the dashed line there.
    """
    drawing, axes = new_axes(title, x_label, y_label)
    ends = []
    for (name, rows), marker in zip(frame.groupby("series", sort=False), cycle(MARKERS)):
        (line,) = axes.plot(rows["x"], rows["value"], label=name)
        line.set_marker(marker if len(rows) <= _MANY else "")
        if name == faint:
            line.set_linewidth(0.9)
        if "low" in rows and rows["low"].notna().any():
            colour = line.get_color()
            axes.fill_between(
                rows["x"], rows["low"], rows["high"], color=colour, alpha=_SHADE, linewidth=0
            )
        values = rows["value"]
        ends.append(f"{name} from {number(values.iloc[0])} to {number(values.iloc[-1])}")
    if frame["x"].nunique() == 1:  # ticks beside one whole number would be fractions
        axes.set_xlim(frame["x"].min() - 1, frame["x"].max() + 1)
    if counted_x:
        axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    if log_x:
        axes.set_xscale("log")
    if log_y:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        labelled = (1, 2, 5) if high < 1e4 * low else (1,)
        axes.yaxis.set_major_locator(LogLocator(subs=labelled, numticks=12))
        axes.yaxis.set_major_formatter(EngFormatter(sep=" "))
        axes.minorticks_off()
    if from_zero:
        tops = frame[frame.columns.intersection(["value", "high"])]
        highest = float(np.nanmax(tops.to_numpy(dtype=float)))
        axes.set_ylim(0, 1.1 * highest or 1)
    if mark is not None:
        _draw_mark(axes, *mark)
    if len(ends) > 1:
        _add_legend(drawing, list(frame["series"].unique()))
    return Picture(drawing, f"{title}, {y_label} against {x_label}: {'; '.join(ends)}.")


def _draw_mark(axes: Axes, x: float, name: str) -> None:
    low, high = axes.get_xlim()
    if low <= x <= high:
        axes.axvline(x, color=SOFT, linewidth=1, linestyle=DASHED)
        axes.text(x, 0.98, f" {name}", transform=axes.get_xaxis_transform(), color=SOFT, va="top")


def draw_bars(
    frame: pd.DataFrame,
    title: str,
    x_label: str,
    written: Callable[[float], str],
    *,
    log_x: bool = False,
    strong: str = "",
    chance: float | None = None,
) -> Picture:
    """Horizontal bars from top to bottom, each with its value or with that of a second model.

    Args:
        frame: the column value by name; low and high too where bars have intervals, and other for the second
            model's value.
        strong: the bar that stands out.
        chance: where a dashed line is.
    """
    drawing, axes = new_axes(title, x_label, "", (5.0, 0.9 + 0.34 * len(frame)))
    values = frame["value"]
    colours = frame.index.to_series().map({strong: SERIES[1]}).fillna(SERIES[0])
    spans = None
    if "low" in frame:
        spans = [values - frame["low"], frame["high"] - values]
    bars = axes.barh(frame.index, values, xerr=spans, color=colours, height=0.62, ecolor=INK)
    texts = [written(value) for value in values]
    if "other" not in frame:
        axes.bar_label(bars, texts, padding=4)
    else:
        axes.plot(frame["other"], frame.index, "D", color=SERIES[1], markeredgecolor="white")
    if chance is not None:
        axes.axvline(chance, color=SOFT, linewidth=1, linestyle=DASHED)
    axes.invert_yaxis()
    axes.margins(0.25 if "other" not in frame else 0.04, 0.03)  # room for the values
    axes.grid(visible=False, axis="y")
    if log_x:
        axes.set_xscale("log")
        axes.set_xlim(left=1)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
    words = [f"{name} {text}" for name, text in zip(frame.index, texts)]
    return Picture(drawing, f"{title}: {'; '.join(words)}.")


def draw_points(frame: pd.DataFrame, title: str, x_label: str, y_label: str) -> Picture:
    """A trade-off of two quantities: one named point for each row of columns x and y."""
    drawing, axes = new_axes(title, x_label, y_label)
    words = []
    for name, x, y, marker in zip(frame.index, frame["x"], frame["y"], cycle(MARKERS)):
        axes.plot(x, y, marker, markersize=7, label=name)
        words.append(f"{name} {number(y)} at {number(x)} {x_label}")
    axes.margins(0.2)
    axes.set_xlim(left=0)
    _add_legend(drawing, list(frame.index))
    return Picture(drawing, f"{title}: {'; '.join(words)}.")


def _add_legend(drawing: Figure, names: Sequence[str]) -> None:
    """The names of lines or points below the picture, in as many columns as fit."""
    longest = max(map(len, names))
    columns = max(1, min(len(names), 60 // (longest + 6)))
    drawing.legend(loc="outside lower center", ncols=columns)
