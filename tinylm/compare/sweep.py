"""The losses of a sweep against the number that was varied."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pandas as pd

from tinylm.compare.runs import SEED_KEY, Run, match, settings_of

MOST_LINES = 6  # of the picture
NATS, BITS = "nats per token", "bits per byte"


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Loss against the parameter, of those with numbers, that has the most values.

    unit: of the losses. points: a row for each setting: x, value (mean over seeds), low and high
    (over seeds), seeds, and its series, which is named after the other varied parameters.
    """

    key: str
    unit: str
    points: pd.DataFrame


def sweep_of(runs: Sequence[Run]) -> Sweep | None:
    """The sweep of the runs that were scored on the first one's stories.

    In nats per token if all have the same tokens, otherwise in bits per byte. None if no number
    was varied, or if there were more than `MOST_LINES` lines.
    """
    shared = [match(runs[0], run) for run in runs]
    alike = [run for run, same in zip(runs, shared) if same.texts]
    same_tokens = all(same.tokens for same in shared if same.texts)
    metric = "nats_per_token" if same_tokens else "bits_per_byte"
    settings = [setting for setting in settings_of(alike) if setting.metric(metric)]
    losses = pd.DataFrame([setting.metric(metric) for setting in settings])  # a column per seed
    params = pd.DataFrame([setting.first.result_params for setting in settings], dtype=object)
    params = params.drop(columns=SEED_KEY, errors="ignore")
    counts = params.map(repr).nunique()
    varied = params[counts.index[counts > 1]]
    numbers = [str(key) for key in varied if varied[key].map(_is_number).all()]
    if not numbers:
        return None
    key = max(numbers, key=counts.__getitem__)
    points = pd.DataFrame({"x": varied[key].astype(float), "series": ""})
    points["value"] = losses.mean(axis=1)
    points["low"] = losses.min(axis=1)
    points["high"] = losses.max(axis=1)
    points["seeds"] = losses.count(axis=1)
    for other in varied.columns.drop(key):
        points["series"] += f", {other} " + varied[other].map(str)
    points["series"] = points["series"].str.removeprefix(", ")
    points = points[points.groupby("series")["x"].transform("nunique") > 1]
    if not 0 < points["series"].nunique() <= MOST_LINES:
        return None
    return Sweep(key, NATS if same_tokens else BITS, points.sort_values("x"))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
