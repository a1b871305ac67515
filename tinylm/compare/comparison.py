"""Two or more runs compared with the first: what they share, what differs, what that changed, and how sure it is.

Runs that differ in train.seed alone are one setting, and settings are compared, not runs. Every difference that could
be claimed is a hypothesis; perplexity and bits per byte are two views of one, which is claimed only if both show it.
Holm's correction is over all of them, so that a sweep claims anything false in at most 5 of 100 cases.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinylm.compare.groups import Group, either, grouped, seed_of
from tinylm.compare.pairing import ChangedStory, Pairs, most_changed, pair_up
from tinylm.compare.runs import ABSENT, Run
from tinylm.compare.statistics import (
    ALPHA,
    FEWEST,
    NO_CLAIM,
    Difference,
    Spread,
    claimed,
    difference,
)
from tinylm.evaluate.statistics import holm, pooled_perplexity, pooled_ratio

BETTER, WORSE = "better", "worse"
EQUAL, SEEDS_ONLY, NOTHING_DIFFERS, UNCLEAR, ONE_SEED = (
    "equal",
    "seeds only",
    "nothing differs",
    "unclear",
    "one seed",
)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """kind: one of the names above; says: the sentence for the reader."""

    kind: str
    says: str


def judge(
    found: Difference, lower_is_better: bool, differs: str, p: float | None, comparisons: int
) -> Verdict:
    """Whether the second setting is better than the first.

    differs: "" (nothing that decides a result), "seeds" (nothing else) or "settings". p: corrected for that many
    comparisons, None where the spread over seeds is not known. A claim wants settings that differ and p <= 0.05.
    """
    if found.first == found.second and found.low == found.high == 0:
        return Verdict(EQUAL, "the same")
    if differs == "seeds":
        return Verdict(SEEDS_ONLY, f"{NO_CLAIM}: only seeds differ, and this is what they give")
    if differs == "":
        return Verdict(NOTHING_DIFFERS, f"{NO_CLAIM}: nothing that decides a result differs")
    if not math.isfinite(found.value):
        return Verdict(UNCLEAR, f"{NO_CLAIM}: a figure is not finite")
    if found.count < FEWEST:
        return Verdict(UNCLEAR, f"{NO_CLAIM}: an interval wants {FEWEST} texts or more")
    better = (found.value < 0) == lower_is_better
    kind = BETTER if better else WORSE
    if p is not None:
        return Verdict(kind if p <= ALPHA else UNCLEAR, claimed(better, p, comparisons))
    if found.holds_zero:
        return Verdict(UNCLEAR, f"{NO_CLAIM}: the interval contains 0")
    return Verdict(
        ONE_SEED, f"{NO_CLAIM}: {kind} over these texts, but another seed alone might do as much"
    )


PERPLEXITY, BITS, RAW_BITS, BLEU, PAIRS = (
    "perplexity",
    "bits_per_byte",
    "raw_bits_per_byte",
    "bleu4",
    "minimal_pairs",
)
LOSSES = (PERPLEXITY, RAW_BITS, BITS)  # less is better; one hypothesis


@dataclasses.dataclass(frozen=True)
class Finding:
    """One metric of the second setting compared with the first; p: corrected (see `judge`)."""

    metric: str
    difference: Difference
    p: float | None
    verdict: Verdict

    @property
    def noise(self) -> Spread | None:
        """What seeds alone give."""
        return self.difference.seeds.spread if self.difference.seeds else None


@dataclasses.dataclass(frozen=True)
class Against:
    """A setting, or a run of the first setting with another seed, compared with the first: findings, what cannot be
    compared, and the stories that changed most. seeds: of the first and of this one, none if they are not known."""

    name: str
    differs: str  # "", "seeds" or "settings"
    findings: list[Finding]
    notes: list[str]
    changed: list[ChangedStory]
    seeds: tuple[list[int], list[int]]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Everything that the table, the page and the JSON show.

    parameters: {section.key: {run: value}} for those that differ, `no_effect` the ones that change no figure here;
    inputs: files of code and data that differ; comparisons: the number that p is corrected for.
    """

    runs: list[Run]
    parameters: dict[str, dict[str, Any]]
    no_effect: list[str]
    inputs: list[str]
    against: list[Against]
    comparisons: int


def compare(runs: Sequence[Run]) -> Comparison:
    """Each setting compared with that of the first run."""
    first = runs[0]
    keys = list(dict.fromkeys(key for run in runs for key in run.params))
    values = {key: {run.name: run.params.get(key, ABSENT) for run in runs} for key in keys}
    differing = {
        key: row
        for key, row in values.items()
        if any(value != row[first.name] for value in row.values())
    }
    no_effect = [key for key in differing if not any(key in run.deciding for run in runs)]
    inputs = sorted({path for run in runs[1:] for path in differing_inputs(first, run)})
    own, *others = grouped(runs)
    sides = [(Group([first]), Group([run])) for run in own.runs[1:]] + [
        (own, group) for group in others
    ]
    order = [run.name for run in runs]
    sides.sort(key=lambda pair: order.index(pair[1].first.name))
    measured = [_measure(*side) for side in sides]
    corrected, comparisons = _corrected(measured)
    return Comparison(
        list(runs),
        {key: row for key, row in differing.items() if key not in no_effect},
        no_effect,
        inputs,
        [
            _against(found, by_metric, comparisons)
            for found, by_metric in zip(measured, corrected, strict=True)
        ],
        comparisons,
    )


def differing_inputs(first: Run, second: Run) -> list[str]:
    """Files of code and data that the stages of both read and whose bytes differ."""
    both = [path for path in first.inputs if path in second.inputs]
    return [path for path in both if first.inputs[path] != second.inputs[path]]


def what_differs(first: Run, second: Run) -> str:
    """ "settings" (parameters, code or data), "seeds" (nothing else), or "" (nothing that decides a result)."""
    one, other = first.deciding, second.deciding
    keys = [key for key in {**one, **other} if one.get(key, ABSENT) != other.get(key, ABSENT)]
    if differing_inputs(first, second) or any(not key.endswith(".seed") for key in keys):
        return "settings"
    return "seeds" if keys else ""


@dataclasses.dataclass(frozen=True)
class _Measured:
    """Two settings, the texts that both have, what differs, and each metric's difference."""

    first: Group
    second: Group
    pairs: Pairs
    differs: str
    found: dict[str, Difference]


def _measure(first: Group, second: Group) -> _Measured:
    pairs = pair_up(first.first, second.first)
    found = _differences(first, second, pairs) | _minimal_pairs(first, second)
    return _Measured(first, second, pairs, what_differs(first.first, second.first), found)


def _hypothesis(metric: str) -> str:
    return PERPLEXITY if metric in LOSSES else metric


def _corrected(measured: Sequence[_Measured]) -> tuple[list[dict[str, float]], int]:
    """({metric: p after Holm's correction} for each pair of settings, the number of hypotheses)."""
    asked: dict[tuple[int, str], float] = {}
    for place, sides in enumerate(measured):
        for metric, one in sides.found.items():
            if sides.differs == "settings" and one.p is not None and one.count >= FEWEST:
                key = place, _hypothesis(metric)
                asked[key] = max(one.p, asked.get(key, 0.0))
    corrected = dict(zip(asked, holm(list(asked.values())), strict=True))
    by_metric = [
        {
            metric: corrected[key]
            for metric, one in sides.found.items()
            if one.p is not None and (key := (place, _hypothesis(metric))) in corrected
        }
        for place, sides in enumerate(measured)
    ]
    return by_metric, len(asked)


def _against(sides: _Measured, corrected: dict[str, float], comparisons: int) -> Against:
    findings = []
    for metric, one in sides.found.items():
        p = corrected.get(metric)
        findings.append(
            Finding(metric, one, p, judge(one, metric in LOSSES, sides.differs, p, comparisons))
        )
    first, second, pairs = sides.first, sides.second, sides.pairs
    return Against(
        second.first.name,
        sides.differs,
        findings,
        [*pairs.notes, *_repeated(second)],
        most_changed(first.first, second.first, pairs),
        (sorted(first.stories), sorted(second.stories)),
    )


def _repeated(group: Group) -> list[str]:
    """A line for each run of a setting whose seed another run of it has: it counts once."""
    by_seed: dict[int, str] = {}
    return [
        f"{run.name} has the seed of {by_seed[seed_of(run)]} and is left out"
        for run in group.runs
        if by_seed.setdefault(seed_of(run), run.name) != run.name
    ]


def _differences(first: Group, second: Group, pairs: Pairs) -> dict[str, Difference]:
    """{metric: difference} of those that may be compared."""
    found: dict[str, Difference] = {}
    left, right = pairs.stories.T
    places = (left, right) if len(left) else (slice(None), slice(None))

    def tables(measure: str, over: str) -> list[dict[int, np.ndarray]]:
        """For each side {seed: (S, 2)} of two columns of its stories."""
        return [
            {
                seed: np.stack([getattr(stories, measure), getattr(stories, over)], axis=1)[rows]
                for seed, stories in side.stories.items()
            }
            for side, rows in zip((first, second), places, strict=True)
        ]

    if pairs.same_tokens:
        known = either(first.recorded(PERPLEXITY), second.recorded(PERPLEXITY))
        found[PERPLEXITY] = difference(tables("nats", "tokens"), pooled_perplexity, known)
    for metric, columns in ((RAW_BITS, ("raw_bits", "raw_bytes")), (BITS, ("bits", "n_bytes"))):
        bits = tables(*columns)
        if all(
            side and all(len(rows) and not np.isnan(rows).any() for rows in side.values())
            for side in bits
        ):
            known = either(first.recorded(metric), second.recorded(metric))
            found[metric] = difference(bits, pooled_ratio, known, same_rows=len(left) > 0)
    if len(pairs.samples):
        from tinylm.evaluate.bleu_counts import corpus_bleu

        counts = [
            {seed: _counts(rows, places) for seed, rows in side.samples.items()}
            for side, places in zip((first, second), pairs.samples.T, strict=True)
        ]
        found[BLEU] = difference(counts, corpus_bleu)
    return found


def _counts(samples: Sequence[dict[str, str]], places: np.ndarray) -> np.ndarray:
    """What BLEU counts in these samples.  -> (samples, 10)"""
    from tinylm.evaluate.bleu_counts import match_counts

    rows = [samples[place] for place in places]
    texts, references = ([row[key] for row in rows] for key in ("continuation", "reference"))
    return match_counts(texts, references, tokenize="none").astype(float)


def _minimal_pairs(first: Group, second: Group) -> dict[str, Difference]:
    """The share of right pairs over those that all runs were asked."""
    asked = [answers.keys() for side in (first, second) for answers in side.pairs.values()]
    shared = (
        [pair for pair in asked[0] if all(pair in keys for keys in asked)]
        if first.pairs and second.pairs
        else []
    )
    if not shared:
        return {}
    tables = [
        {
            seed: np.array([[answers[pair]] for pair in shared])
            for seed, answers in side.pairs.items()
        }
        for side in (first, second)
    ]
    return {PAIRS: difference(tables, lambda means: means[..., 0])}
