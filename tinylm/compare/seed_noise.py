"""How far runs of the same settings differ by their seeds alone, where somebody has run some."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tinylm.bench.seeds import FIGURES, merge
from tinylm.compare.runs import Run
from tinylm.reporting.sources import as_number

SEED = "train.seed"


@dataclass(frozen=True)
class Spread:
    """What 95 % of the differences of two runs stay below that differ in their seed, as far as `seeds` of them tell."""

    difference: float
    seeds: int


class Noise:
    """What seeds give for each run of a comparison: from its metrics/seeds.json, else from that of a run among those
    compared of the same settings, else from such runs themselves where their seeds differ."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._groups: dict[str, list[Run]] = {}
        for run in runs:
            self._groups.setdefault(_settings(run), []).append(run)

    def of(self, run: Run, metric: str) -> Spread | None:
        """Of two runs like this one that differ in their seed; None where it is not known."""
        merged = [other.metrics.get("seeds", {}) for other in (run, *self._groups[_settings(run)])]
        for summary in (*merged, self._summary(run)):
            found = summary.get(metric)
            reach = as_number(found.get("difference")) if isinstance(found, dict) else None
            seeds = as_number(summary.get("n"))
            if reach is not None and seeds is not None:
                return Spread(reach, int(seeds))
        return None

    def _summary(self, run: Run) -> dict[str, Any]:
        """The runs of one group as metrics/seeds.json has them, each seed once."""
        group = {
            seed: other
            for other in self._groups[_settings(run)]
            if "evaluate" in other.metrics and isinstance(seed := other.params.get(SEED), int)
        }
        return merge({seed: {name: other.value("evaluate", name) for name in FIGURES} for seed, other in group.items()})


def _settings(run: Run) -> str:
    """Equal for runs that differ in train.seed, and in nothing else that decides a figure."""
    values = {key: value for key, value in run.deciding.items() if key != SEED}
    return repr((sorted(values.items()), sorted(run.inputs.items())))


def either(first: Spread | None, second: Spread | None) -> Spread | None:
    """Of one run like the first and one like the second: the variances of both add up; where one is not known, it is
    taken to be the other's."""
    known = [spread for spread in (first, second) if spread is not None]
    if not known:
        return None
    squares = [spread.difference**2 for spread in known]
    return Spread(math.sqrt(sum(squares) / len(squares)), min(spread.seeds for spread in known))
