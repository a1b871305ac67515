"""Pictures of how cost grows: measured seconds, the counted limit, the fitted power; log axes, PNG for the docs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from tinylm.base.files import write_bytes
from tinylm.reporting.drawing import SERIES, SOFT, STYLE, label_ends, new_axes, settle, to_png


def figure(found: Mapping[str, Any]) -> Figure:
    """Seconds over the axis's values."""
    xs, limits = ([point[key] for point in found["points"]] for key in ("x", "limit_s"))
    lows, medians, highs = ([point["seconds"][key] for point in found["points"]] for key in ("low", "median", "high"))
    title = f"{found['title']}\nseconds ~ x^{found['exponent']:.2f}"
    drawing, axes = new_axes(title, found["x"], "seconds")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.fill_between(xs, lows, highs, color=SERIES[0], alpha=0.22, linewidth=0)
    axes.plot(xs, medians, color=SERIES[0], marker="o", markersize=4)
    ends = [(xs[-1], medians[-1], "measured", SERIES[0])]
    if None not in limits:
        axes.plot(xs, limits, color=SOFT, linestyle=(0, (4, 3)))
        ends.append((xs[-1], limits[-1], "counted limit", SOFT))
    axes.set_xticks(xs, [f"{x:,}" for x in xs])
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    label_ends(axes, ends)
    return drawing


def draw(name: str, found: Mapping[str, Any], folder: Path) -> None:
    """Write growth_NAME.png."""
    with rc_context(STYLE):
        drawing = settle(figure(found))
    write_bytes(folder / f"growth_{name}.png", to_png(drawing))
