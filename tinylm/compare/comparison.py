"""Two or more runs compared with the first: what they share, what differs, what that changed, and how sure it is."""

import dataclasses
import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from tinylm.compare.runs import ABSENT, Run, Stories
from tinylm.compare.statistics import (
    Difference,
    Noise,
    Spread,
    either,
    paired_difference,
    pooled_ratio,
    unpaired_difference,
)
from tinylm.scoring.diversity import pooled_perplexity

FEWEST = 5  # stories or prompts; with fewer, the bootstrap interval is too narrow; with one, it has no width
BETTER, WORSE = "better", "worse"
EQUAL, SEEDS_ONLY, NOTHING_DIFFERS, UNCLEAR, WITHIN_SEEDS = (
    "equal",
    "seeds only",
    "nothing differs",
    "unclear",
    "within seeds",
)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """kind: one of the names above; says: the sentence for the reader."""

    kind: str
    says: str


def judge(difference: Difference, lower_is_better: bool, noise: Spread | None, differs: str) -> Verdict:
    """Whether the second run is better than the first.

    noise: how far two runs differ by their seeds alone, None if that is not known.
    differs: "" (nothing that decides a result), "seeds" (nothing else) or "settings". A claim is made only if settings
    differ, the interval excludes 0, and the difference is larger than what seeds give, if that is known.
    """
    if difference.first == difference.second and difference.low == difference.high == 0:
        return Verdict(EQUAL, "the same")
    if differs == "seeds":
        return Verdict(SEEDS_ONLY, "no difference is claimed: only seeds differ, and this is what they give")
    if differs == "":
        return Verdict(NOTHING_DIFFERS, "no difference is claimed: nothing that decides a result differs")
    if not math.isfinite(difference.value):
        return Verdict(UNCLEAR, "no difference is shown: a figure is not finite")
    if difference.count < FEWEST:
        return Verdict(UNCLEAR, f"no difference is shown: an interval wants {FEWEST} texts or more")
    if difference.holds_zero:
        return Verdict(UNCLEAR, "no difference is shown: the interval contains 0")
    if noise is not None and abs(difference.value) <= noise.difference:
        return Verdict(WITHIN_SEEDS, f"the difference is smaller than what seeds give ({_told(noise)})")
    kind = BETTER if (difference.value < 0) == lower_is_better else WORSE
    if noise is None:
        return Verdict(kind, f"{kind} over these texts; another seed alone might do as much")
    return Verdict(kind, f"{kind}; more than what seeds give ({_told(noise)})")


def _told(noise: Spread) -> str:
    return f"up to {noise.difference:.3g}, as far as {noise.seeds} of them tell"


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Stories and samples of two runs by their indices in each, and a line for each thing that cannot be compared.

    stories (P, 2), samples (Q, 2): indices in the tables of first and second. same_tokens: the stories are the same
    tokens of the same vocabulary, and the same of them are scored, so perplexities may be compared.
    """

    stories: np.ndarray
    samples: np.ndarray
    same_tokens: bool
    notes: list[str]


def pair_up(first: Run, second: Run) -> Pairs:
    """Stories match if their texts are equal; samples match if story, prompt and reference are."""
    none = np.empty((0, 2), dtype=np.int64)
    if first.stories is None or second.stories is None:
        lacking = " and ".join(run.name for run in (first, second) if run.stories is None)
        return Pairs(none, none, False, [f"{lacking}: no losses of single stories, so no intervals of differences"])
    stories = _matches(first.stories.text_ids, second.stories.text_ids)
    samples = _matches(_sample_keys(first), _sample_keys(second))
    notes, one, other = [], len(first.stories), len(second.stories)
    if not len(stories):
        notes.append("the evaluation texts differ: only bits per byte are compared, each run's over its own stories")
    elif len(stories) < max(one, other):
        notes.append(
            f"the evaluation texts differ: compared over the {len(stories)} stories of {one} and {other} that both hold"
        )
    same_tokens = len(stories) > 0
    left, right = stories.T
    if same_tokens and [first.stories.tokens_ids[i] for i in left] != [second.stories.tokens_ids[i] for i in right]:
        same_tokens = False
        notes.append("the vocabularies differ: perplexities are not of the same tokens; bits per byte are compared")
        if (first.stories.n_bytes[left] != second.stories.n_bytes[right]).any():
            notes.append(
                "the texts are normalised differently: bits per byte are of what each run models of them, "
                "those of the raw text of every byte"
            )
    elif same_tokens and (first.stories.tokens[left] != second.stories.tokens[right]).any():
        same_tokens = False
        notes.append("the layouts score other tokens: perplexities are not compared; bits per byte are")
    if first.samples and second.samples and not len(samples):
        notes.append("the prompts or their references differ: BLEU is not compared")
    return Pairs(stories, samples, same_tokens, notes)


def _sample_keys(run: Run) -> list[tuple[str, str, str]]:
    """Story, prompt and reference of each sample."""
    assert run.stories is not None
    return [(run.stories.text_ids[int(row["story"])], row["prompt"], row["reference"]) for row in run.samples]


def _matches(first: Sequence[Hashable], second: Sequence[Hashable]) -> np.ndarray:
    """Indices of equal keys in both, the n-th with the n-th if a key occurs several times.  -> (P, 2)"""
    places: dict[Hashable, list[int]] = defaultdict(list)
    for place, key in enumerate(second):
        places[key].append(place)
    taken: dict[Hashable, int] = defaultdict(int)
    found = []
    for place, key in enumerate(first):
        if taken[key] < len(places[key]):
            found.append((place, places[key][taken[key]]))
            taken[key] += 1
    return np.array(found, dtype=np.int64).reshape(-1, 2)


SHOWN = 5


@dataclasses.dataclass(frozen=True)
class ChangedStory:
    """A story, its loss under both runs, and the continuation that each wrote for the same prompt."""

    story: int  # its place in the first run's evaluation split, from 0
    unit: str
    first: float
    second: float
    prompt: str
    reference: str
    first_continuation: str
    second_continuation: str

    @property
    def change(self) -> float:
        """second - first: below 0, the second run finds the story likelier."""
        return self.second - self.first

    @property
    def differs(self) -> bool:
        """Whether loss or continuation differs."""
        return self.change != 0 or self.first_continuation != self.second_continuation


def most_changed(first: Run, second: Run, pairs: Pairs, shown: int = SHOWN) -> list[ChangedStory]:
    """The `shown` stories that changed most among those that both continued, the largest change first.

    By nats per token if the tokens are the same, otherwise by bits per byte, which any two tokenizers share. One prompt
    per story.
    """
    if first.stories is None or second.stories is None:
        return []
    unit, losses = _losses_of(first.stories, second.stories, pairs)
    found: dict[int, ChangedStory] = {}
    for left, right in pairs.samples.tolist():
        one, other = first.samples[left], second.samples[right]
        story, same = int(one["story"]), int(other["story"])
        texts = one["prompt"], one["reference"], one["continuation"], other["continuation"]
        found.setdefault(story, ChangedStory(story, unit, float(losses[0][story]), float(losses[1][same]), *texts))
    known = [changed for changed in found.values() if np.isfinite(changed.change) and changed.differs]
    return sorted(known, key=lambda changed: -abs(changed.change))[:shown]


def _losses_of(first: Stories, second: Stories, pairs: Pairs) -> tuple[str, tuple[np.ndarray, np.ndarray]]:
    with np.errstate(divide="ignore", invalid="ignore"):  # an empty story has neither a loss nor a prompt
        if pairs.same_tokens:
            return "nats per token", (first.nats / first.tokens, second.nats / second.tokens)
        return "bits per byte", (first.bits / first.n_bytes, second.bits / second.n_bytes)


PERPLEXITY, BITS, RAW_BITS, BLEU, PAIRS = "perplexity", "bits_per_byte", "raw_bits_per_byte", "bleu4", "minimal_pairs"
LESS_IS_BETTER = (PERPLEXITY, BITS, RAW_BITS)


@dataclasses.dataclass(frozen=True)
class Finding:
    """One metric of the second run compared with the first."""

    metric: str
    difference: Difference
    noise: Spread | None
    verdict: Verdict


@dataclasses.dataclass(frozen=True)
class Against:
    """One run compared with the first: findings, what cannot be compared, and the stories that changed most."""

    name: str
    differs: str  # "", "seeds" or "settings"
    findings: list[Finding]
    notes: list[str]
    changed: list[ChangedStory]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Everything that the table, the page and the JSON show.

    parameters: {section.key: {run: value}} for those that differ, `no_effect` the ones that change no figure here;
    inputs: files of code and data that differ.
    """

    runs: list[Run]
    parameters: dict[str, dict[str, Any]]
    no_effect: list[str]
    inputs: list[str]
    against: list[Against]


def compare(runs: Sequence[Run]) -> Comparison:
    """Each run compared with the first."""
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


def _against(first: Run, second: Run, noise: Noise) -> Against:
    pairs, differs = pair_up(first, second), what_differs(first, second)
    findings = []
    for metric, difference in (_differences(first, second, pairs) | _minimal_pairs(first, second)).items():
        by_seeds = either(noise.of(first, metric), noise.of(second, metric))
        verdict = judge(difference, metric in LESS_IS_BETTER, by_seeds, differs)
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
    for metric, bits, n_bytes in ((RAW_BITS, "raw_bits", "raw_bytes"), (BITS, "bits", "n_bytes")):
        one, other = (
            np.stack([getattr(run, bits), getattr(run, n_bytes)], axis=1) for run in (first.stories, second.stories)
        )
        if len(left):
            one, other = one[left], other[right]
        if len(one) and len(other) and not np.isnan(one).any() and not np.isnan(other).any():
            measure = paired_difference if len(left) else unpaired_difference
            found[metric] = measure(one, other, pooled_ratio)
    if len(pairs.samples):
        found[BLEU] = _bleu(first, second, pairs.samples)
    return found


def _minimal_pairs(first: Run, second: Run) -> dict[str, Difference]:
    """The share of right pairs over those that both runs were asked."""
    shared = [pair for pair in first.pairs if pair in second.pairs]
    one, other = (np.array([[run.pairs[pair]] for pair in shared]) for run in (first, second))
    return {PAIRS: paired_difference(one, other, lambda means: means[..., 0])} if shared else {}


def _bleu(first: Run, second: Run, places: np.ndarray) -> Difference:
    from tinylm.scoring.bleu_counts import corpus_bleu, match_counts

    def counts(run: Run, column: np.ndarray) -> np.ndarray:
        rows = [run.samples[place] for place in column]
        texts, references = ([row[key] for row in rows] for key in ("continuation", "reference"))
        return match_counts(texts, references, tokenize="none").astype(float)

    return paired_difference(counts(first, places[:, 0]), counts(second, places[:, 1]), corpus_bleu)
