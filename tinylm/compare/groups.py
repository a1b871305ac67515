"""Runs that differ only in train.seed, as one setting: its stories, samples and minimal pairs by seed."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tinylm.compare.runs import Run, Stories
from tinylm.compare.statistics import BySeeds
from tinylm.report.sources import as_number

SEED_KEY = "train.seed"
T = TypeVar("T")


@dataclass(frozen=True)
class Group:
    """The runs of one setting, the first of them in its name; each seed counts once."""

    runs: list[Run]

    @property
    def first(self) -> Run:
        """The run that stands for the group where one is shown."""
        return self.runs[0]

    def _by_seed(self, part: Callable[[Run], T | None]) -> dict[int, T]:
        found: dict[int, T] = {}
        for run in self.runs:
            if (value := part(run)) is not None:
                found.setdefault(seed_of(run), value)
        return found

    @property
    def stories(self) -> dict[int, Stories]:
        """Losses of single stories by seed, those of stage seed_score too; all of the same texts as the first's."""
        own = self._by_seed(lambda run: run.stories)
        more = {seed: stories for run in self.runs for seed, stories in run.more_stories.items()}
        if self.first.stories is None:
            return {}
        return {
            seed: table
            for seed, table in (more | own).items()
            if table.same_rows(self.first.stories)
        }

    @property
    def samples(self) -> dict[int, list[dict[str, str]]]:
        """Samples by seed, of those that continue the same prompts as the first run."""

        def asked(run: Run) -> list[tuple[str, str, str]]:
            return [(row["story"], row["prompt"], row["reference"]) for row in run.samples]

        return self._by_seed(
            lambda run: run.samples if run.samples and asked(run) == asked(self.first) else None
        )

    @property
    def pairs(self) -> dict[int, dict[tuple[str, str, str], float]]:
        """Answers to minimal pairs by seed."""
        return self._by_seed(lambda run: run.pairs or None)

    def figures(self, name: str) -> dict[int, float]:
        """A figure of stage evaluate (`bench.seeds.FIGURES`) by seed: of the runs, and what stage seeds recorded."""
        found: dict[int, float] = {}
        for run in self.runs:
            if (value := as_number(run.value("evaluate", name))) is not None:
                found.setdefault(seed_of(run), value)
        for run in self.runs:
            by_seed = run.value("seeds", "by_seed")
            for seed, row in by_seed.items() if isinstance(by_seed, dict) else ():
                value = as_number(row.get(name)) if isinstance(row, dict) else None
                if value is not None and seed.isdecimal():
                    found.setdefault(int(seed), value)
        return found

    def recorded(self, metric: str) -> BySeeds | None:
        """The error of a difference between two such runs by what stage seeds recorded, None if no run has it."""
        for run in self.runs:
            summary = run.metrics.get("seeds", {})
            found = summary.get(metric)
            sd = as_number(found.get("sd")) if isinstance(found, dict) else None
            seeds = as_number(summary.get("n"))
            if sd is not None and seeds is not None and seeds > 1:
                return BySeeds(math.sqrt(2) * sd, int(seeds) - 1, (1, 1), paired=False)
        return None


def seed_of(run: Run) -> int:
    """train.seed; 0 if the run does not say."""
    seed = run.params.get(SEED_KEY)
    return seed if isinstance(seed, int) else 0


def grouped(runs: Sequence[Run]) -> list[Group]:
    """The runs by setting, in the order of their first runs."""
    groups: dict[Any, list[Run]] = {}
    for run in runs:
        values = {key: value for key, value in run.deciding.items() if key != SEED_KEY}
        seeded = isinstance(run.params.get(SEED_KEY), int)
        key = (
            repr((sorted(values.items()), sorted(run.inputs.items()))),
            None if seeded else run.name,
        )
        groups.setdefault(key, []).append(run)
    return [Group(found) for found in groups.values()]


def either(first: BySeeds | None, second: BySeeds | None) -> BySeeds | None:
    """For one run like the first and one like the second: their variances add up; if one is not known, it is taken to
    equal the other's."""
    known = [found for found in (first, second) if found is not None]
    if not known:
        return None
    error = math.sqrt(sum(found.error**2 for found in known) / len(known))
    return BySeeds(error, min(found.freedom for found in known), (1, 1), paired=False)
