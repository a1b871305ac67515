"""Two or more runs compared with the first: what differs, its effect, and its significance.

Runs that differ only in train.seed are one setting; settings are compared, not runs. Every
difference that could be claimed is a hypothesis. Perplexity and bits per byte are one hypothesis,
which is claimed only if both show it. `statistics.claims` decides over all hypotheses at once.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from tinylm.compare.runs import (
    ABSENT,
    PROMPT_COLUMNS,
    RESULT_SECTIONS,
    STORY_IDS,
    RevisionResult,
    Setting,
    settings_of,
)
from tinylm.evaluate.differences import Difference, Tables, difference_of
from tinylm.evaluate.statistics import (
    HIGHER,
    NO_CLAIM,
    NOT_SHOWN,
    ONE_SEED,
    Claim,
    Statistic,
    claims,
    mean,
    pooled_perplexity,
    pooled_ratio,
)
from tinylm.presets.write import Values

BETTER, WORSE, UNCLEAR = "better", "worse", "unclear"
EQUAL, SEEDS_ONLY, NOTHING_DIFFERS, ALONE = "equal", "seeds only", "nothing differs", "one seed"

PERPLEXITY, BITS, RAW_BITS = "perplexity", "bits_per_byte", "raw_bits_per_byte"
BLEU, MINIMAL_PAIRS = "bleu4", "minimal_pairs"
STORIES_SHOWN = 5  # the stories whose loss changed most
LOSSES = (PERPLEXITY, RAW_BITS, BITS)  # lower is better; one hypothesis
WHAT = {  # the columns that must be equal for a comparison, in words
    "text_id": "the evaluation texts",
    "tokens_id": "the vocabularies",
    "tokens": "the tokens that are scored",
    "bytes": "the normalised texts",
    "raw_bytes": "the raw texts",
    "story": "the stories",
    "prompt": "the prompts",
    "reference": "the references",
}


@dataclasses.dataclass(frozen=True)
class Finding:
    """One metric of a setting, compared with the first setting.

    p: corrected; None if the spread over seeds is unknown. kind: better, worse, or why nothing is
    claimed. sentence: the verdict in words.
    """

    metric: str
    difference: Difference
    p: float | None
    kind: str
    sentence: str


@dataclasses.dataclass(frozen=True)
class Against:
    """A setting, or a run of the first setting with another seed, compared with the first.

    differs: "settings", "seeds" or "". notes: what cannot be compared.
    changed: see `most_changed`. seeds: those of the first setting and those of this one.
    """

    name: str
    differs: str
    findings: list[Finding]
    notes: list[str]
    changed: pd.DataFrame
    seeds: tuple[list[int], list[int]]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The contents of the terminal output, the page and the JSON.

    parameters: the parameters that differ, a row each, with a column for each run. no_effect: those
    that differ and affect no metric. inputs: files of code and data that differ. comparisons: the
    number of hypotheses that p is corrected for.
    """

    runs: list[RevisionResult]
    parameters: pd.DataFrame
    no_effect: list[str]
    inputs: list[str]
    against: list[Against]
    comparisons: int


def compare(runs: Sequence[RevisionResult]) -> Comparison:
    """Compare each setting with that of the first run."""
    first = runs[0]
    inputs = set()
    keys: Values = {}
    for run in runs:
        inputs.update(differing_inputs(first, run))
        keys |= run.params
    parameters = pd.DataFrame(index=list(keys))
    for run in runs:
        values = pd.Series(run.params, dtype=object)
        parameters[run.name] = values.reindex(parameters.index, fill_value=ABSENT)
    parameters = parameters[parameters.map(repr).nunique(axis=1) > 1]
    sections = pd.Index([key.partition(".")[0] for key in parameters.index])
    decides = sections.isin(RESULT_SECTIONS)
    reference, *others = settings_of(runs)
    pairs = [(reference, setting) for setting in others]
    for run in reference.runs[1:]:
        pairs.append((Setting([first]), Setting([run])))
    order = [run.name for run in runs]
    pairs.sort(key=lambda pair: order.index(pair[1].name))
    sides = [_Sides(one, other) for one, other in pairs]
    claimed = _claims(sides)
    against = []
    for index, side in enumerate(sides):
        of_side = {metric: claim for (at, metric), claim in claimed.items() if at == index}
        against.append(_against(side, of_side))
    return Comparison(
        list(runs),
        parameters[decides],
        list(parameters.index[~decides]),
        sorted(inputs),
        against,
        max((claim.comparisons for claim in claimed.values()), default=0),
    )


def differing_inputs(first: RevisionResult, second: RevisionResult) -> list[str]:
    """Files of code and data that the stages of both runs read, with different contents."""
    paths = []
    for path, md5 in sorted(first.inputs.items()):
        if second.inputs.get(path, md5) != md5:
            paths.append(path)
    return paths


def what_differs(first: RevisionResult, second: RevisionResult) -> str:
    """Which differences affect results: "settings" (parameters, code, data), "seeds", or ""."""
    one, other = first.result_params, second.result_params
    keys = [key for key in one | other if one.get(key, ABSENT) != other.get(key, ABSENT)]
    only_seeds = all(key.endswith(".seed") for key in keys)
    if differing_inputs(first, second) or not only_seeds:
        return "settings"
    return "seeds" if keys else ""


class _Sides:
    """Two settings, the difference in each metric, and notes on what cannot be compared."""

    def __init__(self, first: Setting, second: Setting) -> None:
        self.first = first
        self.second = second
        self.differs = what_differs(first.first, second.first)
        self.notes: list[str] = []
        for setting in (first, second):
            if not setting.stories:
                self.notes.append(f"no losses of single stories in {setting.name}, so no intervals")
        by_metric = {
            PERPLEXITY: self._over_stories(PERPLEXITY, "nats", "tokens", pooled_perplexity),
            RAW_BITS: self._over_stories(RAW_BITS, "raw_bits", "raw_bytes", pooled_ratio),
            BITS: self._over_stories(BITS, "bits", "bytes", pooled_ratio),
            BLEU: self._bleu(),
            MINIMAL_PAIRS: self._minimal_pairs(),
        }
        for run in (first.first, second.first):
            contaminated = run.value("evaluate", "memorised", "warnings") or []
            self.notes += [f"{run.name}: {warning}" for warning in contaminated]
        self.differences: dict[str, Difference] = {}
        for metric, difference in by_metric.items():
            if difference is not None:
                self.differences[metric] = difference

    def _over_stories(
        self, metric: str, loss: str, size: str, statistic: Statistic
    ) -> Difference | None:
        """The ratio of two columns' sums over all stories; None if the sides did not score the same."""
        sides = (self.first.stories, self.second.stories)
        tables = [table for side in sides for table in side.values()]
        if not all(sides) or any(table[[loss, size]].isna().any(axis=None) for table in tables):
            return None
        texts = STORY_IDS if metric == PERPLEXITY else STORY_IDS[:1]
        if not self._same(metric, tables, [*texts, size]):
            return None
        values: list[Tables] = []
        for side in sides:
            values.append({seed: table[[loss, size]].to_numpy() for seed, table in side.items()})
        return difference_of(values[0], values[1], statistic)

    def _same(self, metric: str, tables: list[pd.DataFrame], columns: list[str]) -> bool:
        """Whether the tables have equal values in these columns; otherwise it is noted."""
        unequal = []
        for column in columns:
            if not all(table[column].equals(tables[0][column]) for table in tables):
                unequal.append(WHAT[column])
        if unequal:
            self.notes.append(f"{metric} is not compared: {', '.join(unequal)} differ")
        return not unequal

    def _bleu(self) -> Difference | None:
        from tinylm.evaluate.bleu import Bleu, bleu_of  # takes seconds to import

        sides = (self.first.samples, self.second.samples)
        tables = [table for side in sides for table in side.values()]
        if not all(sides) or not self._same(BLEU, tables, PROMPT_COLUMNS):
            return None
        counts: list[Tables] = []
        for side in sides:
            by_seed = {}
            for seed, samples in side.items():
                texts = samples["continuation"].tolist()
                references = samples["reference"].tolist()
                scores = Bleu().compute(predictions=texts, references=references)
                by_seed[seed] = scores["statistics"].astype(float)
            counts.append(by_seed)
        return difference_of(counts[0], counts[1], lambda means: bleu_of(means, 4))

    def _minimal_pairs(self) -> Difference | None:
        """The mean over phenomena, as in stage evaluate, on the pairs that all runs judged.

        The rows that a resample draws are the draws: crossed pairs share their words.
        """
        sides = {"first": self.first.pairs, "second": self.second.pairs}
        if not all(sides.values()):
            return None
        frames = {side: pd.DataFrame(answers) for side, answers in sides.items()}
        answers = pd.concat(frames, axis=1).dropna()
        phenomena = self.first.first.value("evaluate", "pairs", "phenomena") or {}
        counted = [name for name, row in phenomena.items() if row.get("model")]
        answers = answers[answers.index.get_level_values("phenomenon").isin(counted)]
        if answers.empty:
            return None
        draws = answers.groupby(level=["phenomenon", "draw"]).mean()
        names = draws.index.get_level_values("phenomenon").to_series()
        sizes = names.map(names.value_counts()).to_numpy()
        # the mean of draws with these weights is the mean over phenomena
        weights = len(draws) / (sizes * names.nunique())
        weighted = draws.mul(weights, axis=0)
        tables = {}
        for side in sides:
            columns = weighted[side]
            tables[side] = {seed: columns[[seed]].to_numpy() for seed in columns}
        return difference_of(tables["first"], tables["second"], mean)


def _claims(sides: Sequence[_Sides]) -> dict[tuple[int, str], Claim]:
    """{(index of the two settings, metric): claim} of all settings that differ."""
    differences = {}
    hypotheses = {}
    for index, side in enumerate(sides):
        if side.differs == "settings":
            for metric, difference in side.differences.items():
                differences[index, metric] = difference
                hypotheses[index, metric] = index, PERPLEXITY if metric in LOSSES else metric
    return claims(differences, hypotheses)


def _against(sides: _Sides, claims_of: Mapping[str, Claim]) -> Against:
    """claims_of: by metric; empty if the settings do not differ."""
    findings = []
    for metric, difference in sides.differences.items():
        claim = claims_of.get(metric)
        kind, sentence = judge(difference, metric in LOSSES, sides.differs, claim)
        findings.append(Finding(metric, difference, claim.p if claim else None, kind, sentence))
    first = sides.first
    second = sides.second
    return Against(
        second.name,
        sides.differs,
        findings,
        sides.notes,
        most_changed(first.first, second.first),
        (sorted(first.stories), sorted(second.stories)),
    )


def judge(
    difference: Difference, lower_is_better: bool, differs: str, claim: Claim | None
) -> tuple[str, str]:
    """Whether the second setting is better than the first: (kind, sentence)."""
    if difference.first == difference.second and difference.low == difference.high == 0:
        return EQUAL, "the same"
    if claim is None:
        if differs == "seeds":
            return SEEDS_ONLY, f"{NO_CLAIM}: only seeds differ"
        return NOTHING_DIFFERS, f"{NO_CLAIM}: nothing that affects a result differs"
    higher, lower = (WORSE, BETTER) if lower_is_better else (BETTER, WORSE)
    sentence = claim.in_words(higher, lower)
    if claim.verdict != NOT_SHOWN:
        return (higher if claim.verdict == HIGHER else lower), sentence
    return (ALONE if claim.reason == ONE_SEED else UNCLEAR), sentence


def most_changed(first: RevisionResult, second: RevisionResult) -> pd.DataFrame:
    """The stories continued by both runs whose loss changed most, the largest change first.

    In nats per token if the tokens are the same, otherwise in bits per byte; change: second -
    first. One row per story; `story` is its row in the evaluation split. Empty if the runs share no
    prompts.
    """
    prompts = first.samples[PROMPT_COLUMNS]
    if prompts.empty or not prompts.equals(second.samples[PROMPT_COLUMNS]):
        return pd.DataFrame()
    assert first.stories is not None
    assert second.stories is not None
    unit = "bits per byte"
    loss = "bits"
    size = "bytes"
    same_tokens = [*STORY_IDS, "tokens"]
    if first.stories[same_tokens].equals(second.stories[same_tokens]):
        unit = "nats per token"
        loss = "nats"
        size = "tokens"
    table = prompts.assign(unit=unit)
    table["first"] = table["story"].map(first.stories[loss] / first.stories[size])
    table["second"] = table["story"].map(second.stories[loss] / second.stories[size])
    table["first_continuation"] = first.samples["continuation"]
    table["second_continuation"] = second.samples["continuation"]
    table["change"] = table["second"] - table["first"]
    same_text = table["first_continuation"] == table["second_continuation"]
    is_equal = same_text & (table["change"] == 0)
    table = table[np.isfinite(table["change"]) & ~is_equal]
    table = table.drop_duplicates("story")
    largest_first = table["change"].abs().sort_values(ascending=False, kind="stable").index
    return table.loc[largest_first[:STORIES_SHOWN]]
