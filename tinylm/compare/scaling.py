"""Scaling of a sweep: loss as a power of parameters, tokens and compute (Kaplan et al. 2020, arXiv:2001.08361).

Runs that differ in train.seed alone are one point, the mean of their losses. Along one axis, only the lowest-loss
setting of each size counts: the others differ in something that was tuned. Sizes within `ALIKE` of each other are one
size. For compute, only settings that no cheaper one beats count. The curve is a straight line on logarithms,

    log(loss) = offset - exponent * log(size)

by least squares, with Student's intervals. They leave out that the lowest loss of each size was selected.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tinylm.compare.runs import SEED_KEY, Run, Setting, match, settings_of
from tinylm.evaluate.statistics import LEVEL, student_point

AXES = ("parameters", "tokens", "compute")
ALIKE = 1.02
SIZES = 3  # different sizes that a fit needs
NATS, BITS = "nats per token", "bits per byte"
MOST_LINES = 6  # of the sweep's picture
_CURVE_POINTS = 60


@dataclasses.dataclass(frozen=True)
class PowerLaw:
    """The fit along one axis, with the exponent's interval.

    points: the settings that were fitted. curve: columns x, loss, low, high, to be drawn.
    """

    points: pd.DataFrame
    exponent: float
    interval: tuple[float, float]
    curve: pd.DataFrame


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Loss against the parameter, of those with numbers, that has the most values.

    points: columns x, loss, lowest, highest, seeds, and the line that a setting belongs to, which
    is named after the other parameters that were varied.
    """

    key: str
    points: pd.DataFrame


@dataclasses.dataclass(frozen=True)
class Scaling:
    """The fits to a sweep's settings.

    unit: of the losses. points: a row for each setting, with its name, the axes, loss (mean over
    seeds), number of seeds, lowest and highest loss. laws: {axis: its fit}. missing: {axis: why it
    has none}. left_out: the runs whose losses are not on the same text. sweep: None if nothing that
    was varied can be drawn.
    """

    unit: str
    points: pd.DataFrame
    laws: dict[str, PowerLaw]
    missing: dict[str, str]
    left_out: list[str]
    sweep: Sweep | None = None


def scaling_of(runs: Sequence[Run]) -> Scaling:
    """Fits to the runs that were scored on the same stories as the first.

    In nats per token if all have the same tokens, otherwise in bits per byte.
    """
    alike = []
    left_out = []
    unit = NATS
    for run in runs:
        shared = match(runs[0], run)
        if not shared.texts:
            left_out.append(run.name)
            continue
        alike.append(run)
        if not shared.tokens:
            unit = BITS
    rows = []
    settings = []
    for setting in settings_of(alike):
        losses = setting.metric("nats_per_token" if unit == NATS else "bits_per_byte")
        if losses:
            settings.append(setting)
            rows.append(_point(setting, pd.Series(losses)))
        else:
            left_out += [run.name for run in setting.runs]
    points = pd.DataFrame(rows)
    return dataclasses.replace(fit(points, unit, left_out), sweep=_sweep(settings, points))


def _point(setting: Setting, losses: pd.Series) -> dict[str, Any]:
    tokens = setting.first.value("train", "tokens")
    flop_per_token = setting.first.value("train", "training_flop_per_token")
    return {
        "name": setting.name,
        "parameters": setting.first.value("train", "parameters"),
        "tokens": tokens,
        "compute": tokens * flop_per_token if tokens and flop_per_token else None,
        "loss": losses.mean(),
        "seeds": len(losses),
        "lowest": losses.min(),
        "highest": losses.max(),
    }


def _sweep(settings: Sequence[Setting], points: pd.DataFrame) -> Sweep | None:
    rows = [setting.first.result_params for setting in settings]
    params = pd.DataFrame(rows, dtype=object).drop(columns=SEED_KEY, errors="ignore")
    counts = params.map(repr).nunique()
    varied = params[counts.index[counts > 1]]
    numbers = [str(key) for key in varied if varied[key].map(_is_number).all()]
    if not numbers:
        return None
    key = max(numbers, key=counts.__getitem__)
    points = points[["loss", "seeds", "lowest", "highest"]].assign(x=varied[key].astype(float))
    points["line"] = ""
    for other in varied.columns.drop(key):
        points["line"] += f", {other} " + varied[other].map(str)
    points["line"] = points["line"].str.removeprefix(", ")
    sizes = points.groupby("line")["x"].transform("nunique")
    points = points[sizes > 1].sort_values("x")
    if not 0 < points["line"].nunique() <= MOST_LINES:
        return None
    return Sweep(key, points)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def fit(points: pd.DataFrame, unit: str = NATS, left_out: Sequence[str] = ()) -> Scaling:
    """Fit each axis along which the points differ: name, loss, and any of AXES.

    A point without a value of an axis is left out there.
    """
    laws = {}
    missing = {}
    for axis in AXES:
        best = pd.DataFrame()
        if axis in points:
            best = _frontier(points.dropna(subset=[axis, "loss"]), axis)
        if len(best) >= SIZES:
            laws[axis] = _power_law(axis, best)
        else:
            missing[axis] = f"different sizes: {len(best)}; a fit needs {SIZES}"
    return Scaling(unit, points, laws, missing, list(left_out))


def _frontier(points: pd.DataFrame, axis: str) -> pd.DataFrame:
    """The best point of each size, by size; for compute, only those that no cheaper one beats."""
    points = points.sort_values(axis, kind="stable")
    size = 0.0
    sizes = []
    for value in points[axis]:
        if value > size * ALIKE:
            size = value
        sizes.append(size)
    best = points.loc[points.groupby(np.array(sizes))["loss"].idxmin()]
    if axis != "compute":
        return best
    lowest_before = best["loss"].cummin().shift(fill_value=np.inf)
    return best[best["loss"] < lowest_before]


def _power_law(axis: str, best: pd.DataFrame) -> PowerLaw:
    sizes = np.log(best[axis].to_numpy(dtype=float))
    losses = np.log(best["loss"].to_numpy(dtype=float))
    middle = sizes.mean()
    slope, offset = np.polyfit(sizes - middle, losses, 1)
    residuals = losses - offset - slope * (sizes - middle)
    freedom = len(best) - 2
    deviation = np.sqrt((residuals**2).sum() / freedom)
    spread = ((sizes - middle) ** 2).sum()
    slope_error = deviation / np.sqrt(spread)
    t = student_point(1 - LEVEL, freedom)
    half_exponent = t * slope_error
    interval = (float(-slope - half_exponent), float(-slope + half_exponent))
    x = np.linspace(sizes[0], sizes[-1], _CURVE_POINTS)
    line = offset + slope * (x - middle)
    offset_error = deviation / np.sqrt(len(best))
    half = t * np.hypot(offset_error, slope_error * (x - middle))
    logarithms = pd.DataFrame({"x": x, "loss": line, "low": line - half, "high": line + half})
    curve = logarithms.apply(np.exp)
    return PowerLaw(best, float(-slope), interval, curve)


def as_json(scaling: Scaling) -> dict[str, Any]:
    """Everything about the fits except their drawn curves."""
    laws = {}
    for axis, law in scaling.laws.items():
        low, high = law.interval
        laws[axis] = {
            "exponent": {"value": law.exponent, "low": low, "high": high},
            "runs": law.points[["name", axis, "loss"]].to_dict("records"),
        }
    points = scaling.points.astype(object)
    return {
        "unit": scaling.unit,
        "rows": points.where(points.notna(), None).to_dict("records"),
        "laws": laws,
        "missing": scaling.missing,
        "level": LEVEL,
        "left_out": scaling.left_out,
    }
