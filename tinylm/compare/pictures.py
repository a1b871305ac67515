"""Pictures of a comparison: differences with their intervals, a sweep, its scaling."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

from tinylm.compare.comparison import EQUAL, LOSSES, Comparison, Finding
from tinylm.compare.runs import SEED_KEY, Run, settings_of
from tinylm.compare.scaling import NATS, Scaling
from tinylm.report.charts import draw_curves
from tinylm.report.drawing import HEAT, INK, SERIES, SOFT, STYLE, new_axes, settle, to_svg
from tinylm.report.wording import number, short

SWEEP = "sweep"
AXIS_NAMES = {"parameters": "parameters", "tokens": "training tokens", "compute": "training FLOP"}
MOST_LINES = 6  # of the sweep's picture
_SHADE = 0.22  # opacity of a band
_WIDE_SWEEP = 20  # from so many times the smallest value on, the axis is logarithmic
_WIDE_LAW = 100  # from so many times the smallest size on, only powers of ten are labelled
_MARGIN = 0.3  # share of the losses' range, above and below


def difference_pictures(comparison: Comparison, labels: Mapping[str, str]) -> dict[str, str]:
    """{name: SVG} of each metric that changed in some run."""
    rows: dict[str, list[tuple[str, Finding]]] = {}
    for against in comparison.against:
        for finding in against.findings:
            rows.setdefault(finding.metric, []).append((against.name, finding))
    first = comparison.runs[0].name
    svgs = {}
    for metric, row in rows.items():
        if any(finding.kind != EQUAL for _, finding in row):
            drawing = draw_differences(metric, row, first, labels[metric])
            values = [f"{name} {number(finding.difference.value)}" for name, finding in row]
            alt = f"{labels[metric]}, difference from {first}: {'; '.join(values)}."
            name = difference_name(metric)
            svgs[name] = to_svg(drawing, name, alt)
    return svgs


def difference_name(metric: str) -> str:
    """The picture's name."""
    return f"difference-{metric}"


def draw_differences(
    metric: str, rows: Sequence[tuple[str, Finding]], first: str, label: str
) -> Figure:
    """A point and its interval for each setting; a shade as wide as what seeds alone give."""
    better = "left is better" if metric in LOSSES else "right is better"
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


@dataclasses.dataclass(frozen=True)
class SweepLines:
    """Loss against the number that was varied most: columns x, mean, low, high and seeds.

    lines: a table for each choice of the other parameters that were varied.
    """

    key: str
    unit: str
    lines: dict[str, pd.DataFrame]


def sweep_lines(runs: Sequence[Run], unit: str) -> SweepLines | None:
    """The sweep over the number with the most values; None if there is none to be drawn."""
    metric = "nats_per_token" if unit == NATS else "bits_per_byte"
    settings = settings_of(runs)
    params = pd.DataFrame([setting.first.result_params for setting in settings], dtype=object)
    params = params.drop(columns=SEED_KEY, errors="ignore")
    counts = params.map(repr).nunique()
    varied = [str(key) for key in counts.index if counts[key] > 1]
    numbers = [key for key in varied if params[key].map(_is_number).all()]
    if not numbers:
        return None
    key = max(numbers, key=counts.__getitem__)
    others = [other for other in varied if other != key]
    lines: dict[str, list[dict[str, Any]]] = {}
    for setting, (_, row) in zip(settings, params.iterrows()):
        losses = pd.Series(setting.metric(metric))
        if len(losses):
            label = ", ".join(f"{other} {row[other]}" for other in others)
            point = {
                "x": float(row[key]),
                "mean": losses.mean(),
                "low": losses.min(),
                "high": losses.max(),
                "seeds": len(losses),
            }
            lines.setdefault(label or unit, []).append(point)
    tables = {}
    for label, points in lines.items():
        table = pd.DataFrame(points).sort_values("x")
        if table["x"].nunique() > 1:
            tables[label] = table
    return SweepLines(key, unit, tables) if 0 < len(tables) <= MOST_LINES else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def draw_sweep(sweep: SweepLines) -> Figure:
    """Means over seeds against the varied number; bands from the lowest to the highest."""
    curves = {}
    bands = {}
    for name, line in sweep.lines.items():
        x = list(line["x"])
        curves[name] = (x, list(line["mean"]))
        if line["seeds"].min() > 1:
            bands[name] = (x, list(line["low"]), list(line["high"]))
    title = f"Loss against {sweep.key}"
    with rc_context(STYLE):
        drawing = draw_curves(curves, title, sweep.key, sweep.unit, bands=bands, counted_x=False)
        values = pd.concat([line["x"] for line in sweep.lines.values()])
        if 0 < values.min() * _WIDE_SWEEP < values.max():
            drawing.axes[0].set_xscale("log")
        return settle(drawing)


def sweep_picture(sweep: SweepLines) -> str:
    """The SVG of `draw_sweep`."""
    words = []
    for name, line in sweep.lines.items():
        means = line["mean"]
        words.append(f"{name} from {number(means.iloc[0])} to {number(means.iloc[-1])}")
    return to_svg(draw_sweep(sweep), SWEEP, f"Loss against {sweep.key}: {'; '.join(words)}.")


def scaling_pictures(scaling: Scaling) -> dict[str, str]:
    """{name: SVG} of each axis that has a fit."""
    svgs = {}
    for axis, law in scaling.laws.items():
        losses = law.points["loss"]
        alt = (
            f"Loss against {AXIS_NAMES[axis]}: from {number(losses.iloc[0])} to "
            f"{number(losses.iloc[-1])}; exponent {number(law.exponent)}."
        )
        name = scaling_name(axis)
        svgs[name] = to_svg(draw_law(scaling, axis), name, alt)
    return svgs


def scaling_name(axis: str) -> str:
    """The picture's name."""
    return f"scaling-{axis}"


def draw_law(scaling: Scaling, axis: str) -> Figure:
    """All settings and the fitted curve with its band, both axes logarithmic."""
    law = scaling.laws[axis]
    fitted: Any = law.points
    points = scaling.points.dropna(subset=[axis, "loss"])
    others: Any = points[~points["name"].isin(fitted["name"])]
    losses = points["loss"]
    with rc_context(STYLE):
        title = f"Loss against {AXIS_NAMES[axis]}"
        drawing, axes = new_axes(title, f"{AXIS_NAMES[axis]}, log scale", scaling.unit)
        curve: Any = law.curve
        blue = SERIES[0]
        axes.fill_between("x", "low", "high", data=curve, color=blue, alpha=_SHADE, linewidth=0)
        axes.plot("x", "loss", data=curve, color=blue)
        axes.plot(axis, "loss", "o", data=others, color=SOFT, fillstyle="none", markersize=5)
        axes.plot(axis, "loss", "o", data=fitted, color=INK, markersize=5)
        if "seeds" in points:
            several = points[points["seeds"] > 1]
            axes.vlines(several[axis], several["lowest"], several["highest"], color=SOFT, alpha=0.5)
            losses = pd.concat([losses, several["lowest"], several["highest"]])
        axes.set_xscale("log")
        is_wide = fitted[axis].max() > _WIDE_LAW * fitted[axis].min()
        labelled = (1,) if is_wide else (1, 2, 5)
        axes.xaxis.set_major_locator(LogLocator(subs=labelled, numticks=8))
        axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
        axes.xaxis.set_minor_formatter(NullFormatter())
        margin = _MARGIN * (losses.max() - losses.min()) or 1.0
        # with few settings the band may be taller than the picture
        axes.set_ylim(losses.min() - margin, losses.max() + margin)
        return settle(drawing)
