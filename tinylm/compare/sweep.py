"""The runs of a sweep as points that a scaling law may be fitted through."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from tinylm.compare.pairs import pair_up
from tinylm.compare.runs import Run
from tinylm.compare.scaling import Fit, fit

NATS, BITS = "nats a token", "bits a byte"


@dataclasses.dataclass(frozen=True)
class Scaling:
    """The fits through a sweep's runs, and the names of those whose losses are not of the same text."""

    law: Fit
    left_out: list[str]


def scaling_of(runs: Sequence[Run]) -> Scaling:
    """Fits through the runs that score the same stories as the first.

    By nats a token where all have the same tokens, else by bits a byte; compute is training FLOP.
    """
    first = runs[0]
    pairs = {run.name: pair_up(first, run) for run in runs}
    alike = [run for run in runs if _same_stories(first, run, len(pairs[run.name].stories))]
    unit = NATS if all(pairs[run.name].same_tokens for run in alike) else BITS
    rows = [_point(run, "nats_per_token" if unit == NATS else "bits_per_byte") for run in alike]
    rows = [row for row in rows if row["loss"] is not None]
    names = {row["name"] for row in rows}
    return Scaling(fit(rows, unit), [run.name for run in runs if run.name not in names])


def _same_stories(first: Run, run: Run, shared: int) -> bool:
    """Whether both were scored on these and no others: a run's loss is over all of its stories."""
    return bool(first.stories and run.stories) and shared == len(first.stories or ()) == len(run.stories or ())


def _point(run: Run, loss: str) -> dict[str, Any]:
    tokens, flop = run.value("train", "tokens"), run.value("train", "training_flop_per_token")
    return {
        "name": run.name,
        "parameters": run.value("train", "parameters"),
        "tokens": tokens,
        "compute": tokens * flop if tokens and flop else None,
        "loss": run.value("evaluate", loss),
    }
