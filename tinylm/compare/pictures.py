"""Pictures of a comparison: differences with their intervals, a sweep, its scaling."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

from tinylm.compare.comparison import EQUAL, LOSSES, Comparison, Finding
from tinylm.compare.scaling import Scaling, Sweep
from tinylm.report.charts import draw_lines
from tinylm.report.drawing import HEAT, INK, SERIES, SOFT, STYLE, new_axes, settle, to_svg
from tinylm.report.wording import number, short

AXIS_NAMES = {"parameters": "parameters", "tokens": "training tokens", "compute": "training FLOP"}
_SHADE = 0.22  # opacity of a band
_WIDE_SWEEP = 20  # from so many times the smallest value on, the axis is logarithmic
_WIDE_LAW = 100  # from so many times the smallest size on, only powers of ten are labelled
_MARGIN = 0.3  # share of the losses' range, above and below


def difference_pictures(comparison: Comparison, labels: Mapping[str, str]) -> dict[str, str]:
    """{name: SVG} of each metric that changed in some run."""
    first = comparison.runs[0].name
    svgs = {}
    for metric, label in labels.items():
        rows = []
        for against in comparison.against:
            for finding in against.findings:
                if finding.metric == metric:
                    rows.append((against.name, finding))
        if any(finding.kind != EQUAL for _, finding in rows):
            values = [f"{name} {number(finding.difference.value)}" for name, finding in rows]
            alt = f"{label}, difference from {first}: {'; '.join(values)}."
            name = f"difference-{metric}"
            svgs[name] = to_svg(draw_differences(rows, first, label), name, alt)
    return svgs


def draw_differences(rows: Sequence[tuple[str, Finding]], first: str, label: str) -> Figure:
    """A point and its interval for each setting; a shade as wide as what seeds alone give."""
    better = "left is better" if rows[0][1].metric in LOSSES else "right is better"
    with rc_context(STYLE):
        axis_label = f"difference from {short(first)}, {better}"
        drawing, axes = new_axes(label, axis_label, "", (5.0, 1.3 + 0.3 * len(rows)))
        for y, (_, finding) in enumerate(rows):
            difference = finding.difference
            if difference.seeds is not None:
                bound = difference.seeds.bound
                axes.barh(y, 2 * bound, 0.6, -bound, color=HEAT, alpha=0.2, linewidth=0)
            axes.hlines(y, difference.low, difference.high, color=SERIES[0])
            axes.plot(difference.value, y, marker="o", color=INK, markersize=4)
        axes.axvline(0, color=SOFT, linewidth=0.9, linestyle="--")
        axes.set_yticks(range(len(rows)), [short(name) for name, _ in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
        return settle(drawing)


def scaling_pictures(scaling: Scaling) -> dict[str, str]:
    """{name: SVG} of the sweep and of each axis that has a fit."""
    svgs = {}
    if scaling.sweep is not None:
        alt = f"Loss against {scaling.sweep.key}, {_ends(scaling.sweep.points['loss'])}."
        svgs["sweep"] = to_svg(draw_sweep(scaling.sweep, scaling.unit), "sweep", alt)
    for axis, law in scaling.laws.items():
        ends = _ends(law.points["loss"])
        alt = f"Loss against {AXIS_NAMES[axis]}, {ends}; exponent {number(law.exponent)}."
        name = f"scaling-{axis}"
        svgs[name] = to_svg(draw_law(scaling, axis), name, alt)
    return svgs


def _ends(losses: Any) -> str:
    return f"from {number(losses.iloc[0])} to {number(losses.iloc[-1])}"


def draw_sweep(sweep: Sweep, unit: str) -> Figure:
    """Means over seeds against the varied number; bands from the lowest to the highest."""
    names = {"line": "series", "loss": "value", "lowest": "low", "highest": "high"}
    rows = sweep.points.rename(columns=names).replace({"series": {"": unit}})
    alone = rows.groupby("series")["seeds"].transform("min") < 2
    rows.loc[alone, ["low", "high"]] = np.nan
    is_wide = 0 < rows["x"].min() * _WIDE_SWEEP < rows["x"].max()
    title = f"Loss against {sweep.key}"
    with rc_context(STYLE):
        picture = draw_lines(rows, title, sweep.key, unit, log_x=is_wide, counted_x=False)
    return picture.drawing


def draw_law(scaling: Scaling, axis: str) -> Figure:
    """All settings and the fitted curve with its band, both axes logarithmic."""
    law = scaling.laws[axis]
    fitted: Any = law.points
    points = scaling.points.dropna(subset=[axis, "loss"])
    others: Any = points[~points["name"].isin(fitted["name"])]
    with rc_context(STYLE):
        title = f"Loss against {AXIS_NAMES[axis]}"
        drawing, axes = new_axes(title, f"{AXIS_NAMES[axis]}, log scale", scaling.unit)
        curve: Any = law.curve
        blue = SERIES[0]
        axes.fill_between("x", "low", "high", data=curve, color=blue, alpha=_SHADE, linewidth=0)
        axes.plot("x", "loss", data=curve, color=blue)
        axes.plot(axis, "loss", "o", data=others, color=SOFT, fillstyle="none", markersize=5)
        axes.plot(axis, "loss", "o", data=fitted, color=INK, markersize=5)
        axes.vlines(points[axis], points["lowest"], points["highest"], color=SOFT, alpha=0.5)
        axes.set_xscale("log")
        is_wide = fitted[axis].max() > _WIDE_LAW * fitted[axis].min()
        labelled = (1,) if is_wide else (1, 2, 5)
        axes.xaxis.set_major_locator(LogLocator(subs=labelled, numticks=8))
        axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
        axes.xaxis.set_minor_formatter(NullFormatter())
        low = points["lowest"].min()
        high = points["highest"].max()
        margin = _MARGIN * (high - low) or 1.0
        # with few settings the band may be taller than the picture
        axes.set_ylim(low - margin, high + margin)
        return settle(drawing)
