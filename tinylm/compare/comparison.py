"""Two or more runs against the first of them: what differs, what it changed, how sure that is."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinylm.compare.changed import ChangedStory, most_changed
from tinylm.compare.pairs import Pairs, pair_up
from tinylm.compare.runs import ABSENT, Run
from tinylm.compare.seed_noise import Noise, Spread, either
from tinylm.compare.statistics import Difference, paired_difference, pooled_ratio, unpaired_difference
from tinylm.compare.verdicts import Verdict, judge
from tinylm.scoring.diversity import pooled_perplexity

PERPLEXITY, BITS, BLEU = "perplexity", "bits_per_byte", "bleu4"


@dataclasses.dataclass(frozen=True)
class Finding:
    """One metric of the second run against the first."""

    metric: str
    difference: Difference
    noise: Spread | None
    verdict: Verdict


@dataclasses.dataclass(frozen=True)
class Against:
    """One run against the first: findings, what cannot be compared, and the stories that changed most."""

    name: str
    differs: str  # "", "seeds" or "settings"
    findings: list[Finding]
    notes: list[str]
    changed: list[ChangedStory]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Everything that the table, the page and the JSON show.

    parameters: {section.key: {run: value}} where the runs differ, `no_effect` those that change no figure here;
    inputs: files of code and data that differ.
    """

    runs: list[Run]
    parameters: dict[str, dict[str, Any]]
    no_effect: list[str]
    inputs: list[str]
    against: list[Against]


def compare(runs: Sequence[Run]) -> Comparison:
    """Each run against the first."""
    first, noise = runs[0], Noise(runs)
    keys = list(dict.fromkeys(key for run in runs for key in run.params))
    values = {key: {run.name: run.params.get(key, ABSENT) for run in runs} for key in keys}
    differing = {key: row for key, row in values.items() if any(value != row[first.name] for value in row.values())}
    no_effect = [key for key in differing if not any(key in run.deciding for run in runs)]
    inputs = sorted({path for run in runs[1:] for path in differing_inputs(first, run)})
    return Comparison(
        list(runs),
        {key: row for key, row in differing.items() if key not in no_effect},
        no_effect,
        inputs,
        [_against(first, run, noise) for run in runs[1:]],
    )


def differing_inputs(first: Run, second: Run) -> list[str]:
    """Files of code and data that the stages of both read, with other bytes."""
    both = [path for path in first.inputs if path in second.inputs]
    return [path for path in both if first.inputs[path] != second.inputs[path]]


def what_differs(first: Run, second: Run) -> str:
    """ "settings" (parameters, code or data), "seeds" (nothing else), or "" for nothing that decides a result."""
    one, other = first.deciding, second.deciding
    keys = [key for key in {**one, **other} if one.get(key, ABSENT) != other.get(key, ABSENT)]
    if differing_inputs(first, second) or any(not key.endswith(".seed") for key in keys):
        return "settings"
    return "seeds" if keys else ""


def _against(first: Run, second: Run, noise: Noise) -> Against:
    pairs, differs = pair_up(first, second), what_differs(first, second)
    findings = []
    for metric, difference in _differences(first, second, pairs).items():
        by_seeds = either(noise.of(first, metric), noise.of(second, metric))
        verdict = judge(difference, metric != BLEU, by_seeds, differs)
        findings.append(Finding(metric, difference, by_seeds, verdict))
    return Against(second.name, differs, findings, pairs.notes, most_changed(first, second, pairs))


def _differences(first: Run, second: Run, pairs: Pairs) -> dict[str, Difference]:
    """{metric: difference} of those that may be compared."""
    found: dict[str, Difference] = {}
    if first.stories is None or second.stories is None:
        return found
    left, right = pairs.stories.T
    if pairs.same_tokens:
        tables = (np.stack([run.nats, run.tokens], axis=1) for run in (first.stories, second.stories))
        one, other = (table[places] for table, places in zip(tables, (left, right), strict=True))
        found[PERPLEXITY] = paired_difference(one, other, pooled_perplexity)
    one, other = (np.stack([run.bits, run.n_bytes], axis=1) for run in (first.stories, second.stories))
    if len(left):
        one, other = one[left], other[right]
    if len(one) and len(other) and not np.isnan(one).any() and not np.isnan(other).any():
        measure = paired_difference if len(left) else unpaired_difference
        found[BITS] = measure(one, other, pooled_ratio)
    if len(pairs.samples):
        found[BLEU] = _bleu(first, second, pairs.samples)
    return found


def _bleu(first: Run, second: Run, places: np.ndarray) -> Difference:
    from tinylm.scoring.bleu_counts import corpus_bleu, match_counts

    def counts(run: Run, column: np.ndarray) -> np.ndarray:
        rows = [run.samples[place] for place in column]
        texts, references = ([row[key] for row in rows] for key in ("continuation", "reference"))
        return match_counts(texts, references, tokenize="none").astype(float)

    return paired_difference(counts(first, places[:, 0]), counts(second, places[:, 1]), corpus_bleu)
