"""Scaling of a sweep: loss as a power of parameters, tokens and compute (Kaplan et al. 2020, arXiv:2001.08361).

Runs that differ in train.seed alone are one point, the mean of their losses. Along one axis, only the lowest-loss
setting of each size counts: the others differ in something that was tuned. Sizes within `ALIKE` of each other are one
size. For compute, only settings that no cheaper one beats count. The curve is

    loss = floor + scale * (x / middle) ** -exponent

with a floor of 0 if there are fewer than `FLOOR_SIZES` sizes, which could not tell it from the exponent. `middle` is
the geometric mean of the sizes. Intervals are percentiles over a parametric bootstrap: fits to losses drawn around the
curve, with normally distributed logarithms. The residual variance is also resampled (chi-square, n minus the number of
fitted numbers as degrees of freedom), because there are few residuals; so intervals of a straight line are Student's.
They leave out that the lowest loss of each size was selected.
"""

import dataclasses
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tinylm.compare.pairing import pair_up
from tinylm.compare.runs import Run, Setting, settings_of

AXES = ("parameters", "tokens", "compute")
ALIKE = 1.02
SIZES = 3  # different sizes that a fit needs
FLOOR_SIZES = 5  # that a fit with a floor needs
RESAMPLES = 1000
SEED = 1
LEVEL = 0.95
NATS, BITS = "nats per token", "bits per byte"
_EXPONENTS = (0.01, 4.0)  # searched if there is a floor
_GRID = 48  # exponents in each round of the search
_ROUNDS = 5
_FARTHEST = 10.0  # e-folds; with one degree of freedom a drawn loss may be anywhere
_CURVE_POINTS = 60

Interval = tuple[float, float]


@dataclasses.dataclass(frozen=True)
class PowerLaw:
    """The fit along one axis. floor and its interval are 0 if it was not fitted.

    points: the settings that were fitted. curve: columns x, loss, low, high, to be drawn.
    """

    axis: str
    points: pd.DataFrame
    exponent: float
    exponent_interval: Interval
    floor: float
    floor_interval: Interval
    has_floor: bool
    curve: pd.DataFrame


@dataclasses.dataclass(frozen=True)
class Scaling:
    """The fits to a sweep's settings.

    unit: of the losses. points: a row for each setting, with its name, the axes, loss (mean over
    seeds), number of seeds, lowest and highest loss. laws: {axis: its fit}. missing: {axis: why it
    has none}. left_out: the runs whose losses are not on the same text.
    """

    unit: str
    points: pd.DataFrame
    laws: dict[str, PowerLaw]
    missing: dict[str, str]
    left_out: list[str]


def scaling_of(runs: Sequence[Run]) -> Scaling:
    """Fits to the runs that were scored on the same stories as the first.

    In nats per token if all have the same tokens, otherwise in bits per byte.
    """
    first = runs[0]
    alike = []
    unit = NATS
    for run in runs:
        pairs = pair_up(first, run)
        if _all_shared(first, run, len(pairs.stories)):
            alike.append(run)
            unit = unit if pairs.same_tokens else BITS
    metric = "nats_per_token" if unit == NATS else "bits_per_byte"
    rows = []
    left_out = [run.name for run in runs if run not in alike]
    for setting in settings_of(alike):
        losses = list(setting.metric(metric).values())
        if losses:
            rows.append(_point(setting, losses))
        else:
            left_out += [run.name for run in setting.runs]
    return fit(pd.DataFrame(rows), unit, left_out)


def _all_shared(first: Run, run: Run, shared: int) -> bool:
    """Whether both were scored on the same stories and no others."""
    if first.stories is None or run.stories is None:
        return False
    return shared == len(first.stories) == len(run.stories) > 0


def _point(setting: Setting, losses: Sequence[float]) -> dict[str, Any]:
    tokens = setting.first.value("train", "tokens")
    flop_per_token = setting.first.value("train", "training_flop_per_token")
    return {
        "name": setting.name,
        "parameters": setting.first.value("train", "parameters"),
        "tokens": tokens,
        "compute": tokens * flop_per_token if tokens and flop_per_token else None,
        "loss": statistics.fmean(losses),
        "seeds": len(losses),
        "lowest": min(losses),
        "highest": max(losses),
    }


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
    sizes = best[axis].to_numpy(dtype=float)
    losses = best["loss"].to_numpy(dtype=float)
    middle = float(np.exp(np.log(sizes).mean()))
    x = sizes / middle
    has_floor = False
    numbers = _fit_straight(x, losses[None])
    if len(best) >= FLOOR_SIZES:
        with_floor = _fit_with_floor(x, losses[None])
        has_floor = bool(with_floor[0, 1] > 0)  # losses that do not fall have no floor
        numbers = with_floor if has_floor else numbers
    fit_again: Callable[[np.ndarray, np.ndarray], np.ndarray] = _fit_straight
    if has_floor:
        fit_again = _fit_with_floor
    line = _curve(numbers, x)[0]
    drawn = fit_again(x, _resampled(line, losses, 2 + has_floor))
    tails = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    low, high = np.quantile(drawn, tails, axis=0)
    grid = np.geomspace(x[0], x[-1], _CURVE_POINTS)
    band = np.quantile(_curve(drawn, grid), tails, axis=0)
    curve = pd.DataFrame({"x": grid * middle, "loss": _curve(numbers, grid)[0]})
    curve["low"], curve["high"] = band
    return PowerLaw(
        axis,
        best,
        float(numbers[0, 2]),
        (float(low[2]), float(high[2])),
        float(numbers[0, 0]),
        (float(low[0]), float(high[0])),
        has_floor,
        curve,
    )


def _resampled(line: np.ndarray, losses: np.ndarray, fitted: int) -> np.ndarray:
    """Losses drawn around the curve, which has so many fitted numbers.  -> (RESAMPLES, n)"""
    freedom = len(line) - fitted
    deviation = np.sqrt((np.log(losses / line) ** 2).sum() / freedom)
    rng = np.random.default_rng(SEED)
    spread = deviation * np.sqrt(freedom / rng.chisquare(freedom, size=(RESAMPLES, 1)))
    residuals = spread * rng.standard_normal((RESAMPLES, len(line)))
    return line * np.exp(np.clip(residuals, -_FARTHEST, _FARTHEST))


def _curve(numbers: np.ndarray, x: np.ndarray) -> np.ndarray:
    """numbers (R, 3): floor, scale, exponent.  -> losses (R, len(x))"""
    floor, scale, exponent = numbers.T[:, :, None]
    return floor + scale * x**-exponent


def _fit_straight(x: np.ndarray, losses: np.ndarray) -> np.ndarray:
    """Least squares on the logarithms, floor 0: losses (R, n) -> floor, scale, exponent (R, 3)."""
    u = np.log(x)  # sums to 0
    y = np.log(losses)
    slope = (y @ u) / (u @ u)
    scale = np.exp(y.mean(1))
    return np.stack([np.zeros_like(scale), scale, -slope], axis=1)


def _fit_with_floor(x: np.ndarray, losses: np.ndarray) -> np.ndarray:
    """Least squares on relative residuals: losses (R, n) -> floor, scale, exponent (R, 3).

    For a given exponent, floor and scale are a linear fit. Exponents are searched on a grid that is
    narrowed around the best one a few times.
    """
    low = np.full(len(losses), np.log(_EXPONENTS[0]))
    high = np.full(len(losses), np.log(_EXPONENTS[1]))
    rows = np.arange(len(losses))
    for _ in range(_ROUNDS):
        exponents = np.exp(np.linspace(low, high, _GRID, axis=1))  # (R, A)
        floor, scale, error = _fit_linear(x, losses, exponents)
        best = error.argmin(1)
        low = np.log(exponents[rows, np.maximum(best - 1, 0)])
        high = np.log(exponents[rows, np.minimum(best + 1, _GRID - 1)])
    return np.stack([floor[rows, best], scale[rows, best], exponents[rows, best]], axis=1)


def _fit_linear(
    x: np.ndarray, losses: np.ndarray, exponents: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Floor and scale (R, A) for each exponent, neither below 0, and their relative squared error.

    The normal equations of 1 = floor * one + scale * power, where `one` is 1 / loss.
    """
    one = 1 / losses[:, None, :]  # (R, 1, n)
    power = x ** -exponents[:, :, None] * one  # (R, A, n)
    one_one = (one * one).sum(2)
    one_power = (one * power).sum(2)
    power_power = (power * power).sum(2)
    one_sum = one.sum(2)
    power_sum = power.sum(2)
    determinant = np.maximum(one_one * power_power - one_power**2, 1e-300)
    floor = (power_power * one_sum - one_power * power_sum) / determinant
    scale = (one_one * power_sum - one_power * one_sum) / determinant
    scale = np.where(floor < 0, power_sum / power_power, scale)
    floor = np.maximum(floor, 0.0)
    floor = np.where(scale < 0, one_sum / one_one, floor)
    scale = np.maximum(scale, 0.0)
    fitted = floor[:, :, None] * one + scale[:, :, None] * power
    return floor, scale, ((1 - fitted) ** 2).sum(2)


def as_json(scaling: Scaling) -> dict[str, Any]:
    """Everything about the fits except their drawn curves."""
    laws: dict[str, dict[str, Any]] = {}
    for axis, law in scaling.laws.items():
        laws[axis] = {"exponent": _interval(law.exponent, law.exponent_interval)}
        if law.has_floor:
            laws[axis]["floor"] = _interval(law.floor, law.floor_interval)
        laws[axis]["runs"] = law.points[["name", axis, "loss"]].to_dict("records")
    return {
        "unit": scaling.unit,
        "rows": scaling.points.astype(object)
        .where(scaling.points.notna(), None)
        .to_dict("records"),
        "laws": laws,
        "missing": scaling.missing,
        "resamples": RESAMPLES,
        "level": LEVEL,
        "left_out": scaling.left_out,
    }


def _interval(value: float, ends: Interval) -> dict[str, Any]:
    return {"value": value, "low": ends[0], "high": ends[1]}
