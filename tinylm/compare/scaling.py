"""Scaling of a sweep: loss as a power of parameters, tokens and compute (Kaplan et al. 2020, arXiv:2001.08361).

Runs that differ in train.seed alone are one point, the mean of their losses. Along one axis, only the lowest-loss
setting of each size counts: the others differ in something that was tuned. Sizes within `ALIKE` of each other are one
size. For compute, which may be spent in many ways, only runs that no cheaper run beats count. The curve is

    loss = floor + scale * (x / middle) ** -exponent

with a floor of 0 if there are fewer than `FLOOR_SIZES` sizes: then it could not be told from the exponent. `middle` is
the geometric mean of the sizes. Intervals are percentiles over a parametric bootstrap: fits to losses drawn around the
curve, with normally distributed logarithms. The residual variance is also resampled (chi-square, n minus the number of
fitted numbers as degrees of freedom), because there are few residuals; so intervals of a straight line are Student's.
"""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tinylm.compare.groups import Group, grouped
from tinylm.compare.pairing import pair_up
from tinylm.compare.runs import Run

AXES = ("parameters", "tokens", "compute")
ALIKE = 1.02
SIZES, FLOOR_SIZES = 3, 5  # different sizes that a fit needs, without and with a floor
RESAMPLES, SEED, LEVEL = 1000, 1, 0.95
_EXPONENTS = (0.01, 4.0)  # range that is searched if there is a floor
_GRID, _ROUNDS = 48, 5
_FAR = 10.0  # e-folds; with one degree of freedom a drawn loss may be anywhere
_PLACES = 60  # points of the drawn curve


@dataclasses.dataclass(frozen=True)
class PowerLaw:
    """The fit along one axis; intervals are (low, high). floor and its interval are 0 if it was not fitted.

    sizes, losses (n,): what was fitted, `names` the runs; places, line, low, high (P,): the curve and its band.
    """

    axis: str
    names: list[str]
    sizes: np.ndarray
    losses: np.ndarray
    exponent: float
    exponent_interval: tuple[float, float]
    floor: float
    floor_interval: tuple[float, float]
    with_floor: bool
    places: np.ndarray
    line: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclasses.dataclass(frozen=True)
class Fit:
    """rows: the runs, `unit` the unit of their losses; laws: {axis: its fit}; missing: {axis: why it has none}."""

    unit: str
    rows: list[dict[str, Any]]
    laws: dict[str, PowerLaw]
    missing: dict[str, str]


def fit(rows: Sequence[Mapping[str, Any]], unit: str = "nats per token") -> Fit:
    """Fit each axis along which the runs differ.

    A row is {"name", "loss" (in `unit`, over the same text for all), and any of "parameters", "tokens", "compute"
    (training FLOP)}; a run without one of them is left out on that axis. "lowest", "highest": of its seeds, only drawn.
    """
    laws, missing = {}, {}
    for axis in AXES:
        best = _frontier([row for row in rows if row.get(axis) and row.get("loss")], axis)
        if len(best) >= SIZES:
            laws[axis] = _law(axis, best)
        else:
            missing[axis] = (
                f"{len(best)} different {'size' if len(best) == 1 else 'sizes'}; a fit needs {SIZES}"
            )
    return Fit(unit, [dict(row) for row in rows], laws, missing)


def _frontier(rows: Sequence[Mapping[str, Any]], axis: str) -> list[Mapping[str, Any]]:
    """The best run of each size, by size; for compute, only those that no cheaper run beats."""
    groups: list[list[Mapping[str, Any]]] = []
    for row in sorted(rows, key=lambda row: row[axis]):
        if groups and row[axis] <= groups[-1][0][axis] * ALIKE:
            groups[-1].append(row)
        else:
            groups.append([row])
    best = [min(group, key=lambda row: row["loss"]) for group in groups]
    if axis != "compute":
        return best
    return [
        row
        for place, row in enumerate(best)
        if all(row["loss"] < other["loss"] for other in best[:place])
    ]


def _law(axis: str, best: Sequence[Mapping[str, Any]]) -> PowerLaw:
    sizes, losses = (np.array([float(row[key]) for row in best]) for key in (axis, "loss"))
    middle = float(np.exp(np.log(sizes).mean()))
    x = sizes / middle
    found, with_floor = None, False
    if len(best) >= FLOOR_SIZES:
        found = _with_floor(x, losses[None])
        with_floor = bool(found[0, 1] > 0)  # losses that do not fall have no floor
    numbers = found if found is not None and with_floor else _straight(x, losses[None])
    line = _curve(numbers, x)[0]
    drawn = (_with_floor if with_floor else _straight)(x, _resampled(line, losses, 2 + with_floor))
    places = np.geomspace(x[0], x[-1], _PLACES)
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
    band = np.quantile(_curve(drawn, places), [tail, 1 - tail], axis=0)
    return PowerLaw(
        axis,
        [str(row["name"]) for row in best],
        sizes,
        losses,
        float(numbers[0, 2]),
        (float(low[2]), float(high[2])),
        float(numbers[0, 0]),
        (float(low[0]), float(high[0])),
        with_floor,
        places * middle,
        _curve(numbers, places)[0],
        *band,
    )


def _resampled(line: np.ndarray, losses: np.ndarray, free: int) -> np.ndarray:
    """Losses resampled around the curve.  -> (RESAMPLES, n)"""
    n = len(line)
    left = n - free
    scale = np.sqrt((np.log(losses / line) ** 2).sum() / left)
    rng = np.random.default_rng(SEED)
    spread = np.sqrt(left / rng.chisquare(left, size=(RESAMPLES, 1)))
    return line * np.exp(np.clip(scale * spread * rng.standard_normal((RESAMPLES, n)), -_FAR, _FAR))


def _curve(numbers: np.ndarray, x: np.ndarray) -> np.ndarray:
    """numbers (R, 3): floor, scale, exponent.  -> losses (R, len(x))"""
    floor, scale, exponent = numbers.T[:, :, None]
    return floor + scale * x**-exponent


def _straight(x: np.ndarray, losses: np.ndarray) -> np.ndarray:
    """Least squares on the logarithms, floor 0: losses (R, n) -> (R, 3)."""
    u, y = np.log(x), np.log(losses)  # u sums to 0
    slope = (y * u).sum(1) / (u * u).sum()
    return np.stack([np.zeros(len(y)), np.exp(y.mean(1)), -slope], axis=1)


def _with_floor(x: np.ndarray, losses: np.ndarray) -> np.ndarray:
    """Least squares on relative residuals: losses (R, n) -> (R, 3).

    For a given exponent, floor and scale are a linear fit with neither below 0; exponents are searched on a grid that
    is narrowed around the best one a few times.
    """
    low, high = (np.full(len(losses), np.log(end)) for end in _EXPONENTS)
    for _ in range(_ROUNDS):
        exponents = np.exp(np.linspace(low, high, _GRID, axis=1))  # (R, A)
        floor, scale, error = _linear(x, losses, exponents)
        best = error.argmin(1)
        rows = np.arange(len(losses))
        around = np.log(exponents[rows[:, None], np.clip(best[:, None] + [-1, 1], 0, _GRID - 1)])
        low, high = around.T
    return np.stack([floor[rows, best], scale[rows, best], exponents[rows, best]], axis=1)


def _linear(
    x: np.ndarray, losses: np.ndarray, exponents: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Floor and scale (R, A) for each exponent, and the sum of squared relative residuals that they leave."""
    weight = 1 / losses[:, None, :]  # (R, 1, n)
    power = x ** -exponents[:, :, None] * weight  # (R, A, n)
    n = losses.shape[1]
    ff, fp, pp = (weight * weight).sum(2), (weight * power).sum(2), (power * power).sum(2)
    f1, p1 = weight.sum(2), power.sum(2)
    fine = np.maximum(ff * pp - fp * fp, 1e-300)
    floor, scale = (pp * f1 - fp * p1) / fine, (ff * p1 - fp * f1) / fine
    bare, flat = p1 / pp, np.broadcast_to(f1 / ff, p1.shape)
    floor, scale = np.where(floor < 0, 0.0, floor), np.where(floor < 0, bare, scale)
    floor, scale = np.where(scale < 0, flat, floor), np.where(scale < 0, 0.0, scale)
    error = (
        n - 2 * (floor * f1 + scale * p1) + floor**2 * ff + 2 * floor * scale * fp + scale**2 * pp
    )
    return floor, scale, error


def as_json(found: Fit) -> dict[str, Any]:
    """Everything about the fits except their drawn curves."""
    laws = {}
    for axis, law in found.laws.items():
        laws[axis] = {
            "exponent": _interval(law.exponent, law.exponent_interval),
            **({"floor": _interval(law.floor, law.floor_interval)} if law.with_floor else {}),
            "runs": [
                {"name": name, axis: size, "loss": loss}
                for name, size, loss in zip(
                    law.names, law.sizes.tolist(), law.losses.tolist(), strict=True
                )
            ],
        }
    return {
        "unit": found.unit,
        "rows": found.rows,
        "laws": laws,
        "missing": found.missing,
        "resamples": RESAMPLES,
        "level": LEVEL,
    }


def _interval(value: float, ends: tuple[float, float]) -> dict[str, float]:
    return {"value": value, "low": ends[0], "high": ends[1]}


NATS, BITS = "nats per token", "bits per byte"


@dataclasses.dataclass(frozen=True)
class Scaling:
    """The fits to a sweep's runs, and the names of the runs whose losses are not on the same text."""

    law: Fit
    left_out: list[str]


def scaling_of(runs: Sequence[Run]) -> Scaling:
    """Fits to the runs that score the same stories as the first.

    In nats per token if all have the same tokens, otherwise in bits per byte; compute is training FLOP.
    """
    first = runs[0]
    pairs = {run.name: pair_up(first, run) for run in runs}
    alike = [run for run in runs if _same_stories(first, run, len(pairs[run.name].stories))]
    unit = NATS if all(pairs[run.name].same_tokens for run in alike) else BITS
    groups = grouped(alike)
    rows = [
        _point(group, "nats_per_token" if unit == NATS else "bits_per_byte") for group in groups
    ]
    fitted = [
        (group, row) for group, row in zip(groups, rows, strict=True) if row["loss"] is not None
    ]
    names = {run.name for group, _ in fitted for run in group.runs}
    return Scaling(
        fit([row for _, row in fitted], unit), [run.name for run in runs if run.name not in names]
    )


def _same_stories(first: Run, run: Run, shared: int) -> bool:
    """Whether both were scored on these and no others: a run's loss is over all of its stories."""
    return bool(first.stories and run.stories) and shared == len(first.stories or ()) == len(
        run.stories or ()
    )


def _point(group: Group, loss: str) -> dict[str, Any]:
    tokens, flop = (
        group.first.value("train", "tokens"),
        group.first.value("train", "training_flop_per_token"),
    )
    losses = list(group.figures(loss).values())
    return {
        "name": group.first.name,
        "parameters": group.first.value("train", "parameters"),
        "tokens": tokens,
        "compute": tokens * flop if tokens and flop else None,
        "loss": statistics.fmean(losses) if losses else None,
        "seeds": len(losses),
        "lowest": min(losses, default=None),
        "highest": max(losses, default=None),
    }
