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

    unit: of the losses. points: a row for each setting: x, loss (mean over seeds), lowest, highest,
    seeds, and the line that it belongs to, which is named after the other varied parameters.
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
    rows = []
    for setting in settings_of(alike):
        losses = setting.metric("nats_per_token" if same_tokens else "bits_per_byte")
        if losses:
            values = pd.Series(losses)
            row = {"loss": values.mean(), "lowest": values.min(), "highest": values.max()}
            rows.append(setting.first.result_params | row | {"seeds": len(values)})
    points = pd.DataFrame(rows, dtype=object).drop(columns=SEED_KEY, errors="ignore")
    params = points.drop(columns=["loss", "lowest", "highest", "seeds"], errors="ignore")
    counts = params.map(repr).nunique()
    varied = params[counts.index[counts > 1]]
    numbers = [str(key) for key in varied if varied[key].map(_is_number).all()]
    if not numbers:
        return None
    key = max(numbers, key=counts.__getitem__)
    points["x"] = varied[key]
    points["line"] = ""
    for other in varied.columns.drop(key):
        points["line"] += f", {other} " + varied[other].map(str)
    points["line"] = points["line"].str.removeprefix(", ")
    sizes = points.groupby("line")["x"].transform("nunique")
    points = points.loc[sizes > 1, ["x", "line", "loss", "lowest", "highest", "seeds"]]
    if not 0 < points["line"].nunique() <= MOST_LINES:
        return None
    numeric = points.astype({name: float for name in points if name != "line"})
    return Sweep(key, NATS if same_tokens else BITS, numeric.sort_values("x"))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
