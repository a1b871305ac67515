"""Which stories and samples two runs share, and the stories that changed most."""

import dataclasses

import numpy as np
import pandas as pd

from tinylm.compare.runs import Run

SHOWN = 5  # stories


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Stories (P, 2) and samples (Q, 2) that two runs share, as row numbers in each.

    same_tokens: the stories are the same tokens of one vocabulary, and the same of them are scored,
    so perplexities may be compared. all_stories: neither run has a story that the other lacks.
    notes: a line for each thing that cannot be compared.
    """

    stories: np.ndarray
    samples: np.ndarray
    same_tokens: bool
    all_stories: bool
    notes: list[str]


def pair_up(first: Run, second: Run) -> Pairs:
    """Stories match if their texts are equal; samples match if story, prompt and reference are."""
    none = np.empty((0, 2), dtype=np.int64)
    for run in (first, second):
        if run.stories is None:
            note = f"{run.name}: no losses of single stories, so no intervals"
            return Pairs(none, none, False, False, [note])
    assert first.stories is not None
    assert second.stories is not None
    stories = _matches(first.stories, second.stories, ["text_id"])
    keys = ["text_id", "prompt", "reference"]
    samples = _matches(_with_texts(first), _with_texts(second), keys)
    notes = []
    sizes = len(first.stories), len(second.stories)
    if not len(stories):
        notes.append("the test texts differ: only bits per byte, each run's over its own stories")
    elif len(stories) < max(sizes):
        counts = f"{len(stories)} stories of {sizes[0]} and {sizes[1]}"
        notes.append(f"the test texts differ: compared over the {counts} that both have")
    difference = _token_difference(first.stories, second.stories, stories)
    notes += difference
    both_sampled = not first.samples.empty and not second.samples.empty
    if both_sampled and not len(samples):
        notes.append("the prompts or their references differ: BLEU is not compared")
    same_tokens = len(stories) > 0 and not difference
    all_stories = len(stories) == max(sizes) > 0
    return Pairs(stories, samples, same_tokens, all_stories, notes)


def _token_difference(first: pd.DataFrame, second: pd.DataFrame, stories: np.ndarray) -> list[str]:
    """Why perplexities of the shared stories cannot be compared; [] if they can."""
    one = first.iloc[stories[:, 0]].reset_index(drop=True)
    other = second.iloc[stories[:, 1]].reset_index(drop=True)
    if not one["tokens_id"].equals(other["tokens_id"]):
        notes = ["the vocabularies differ: bits per byte are compared, perplexities are not"]
        if not one["bytes"].equals(other["bytes"]):
            notes.append("the texts are normalised differently: only raw bits are of all bytes")
        return notes
    if not one["tokens"].equals(other["tokens"]):
        return ["the layouts score other tokens: bits per byte are compared, perplexities are not"]
    return []


def _with_texts(run: Run) -> pd.DataFrame:
    """The samples with the text of their story."""
    assert run.stories is not None
    text_ids = run.samples["story"].map(run.stories["text_id"])
    return run.samples.assign(text_id=text_ids)


def _matches(first: pd.DataFrame, second: pd.DataFrame, keys: list[str]) -> np.ndarray:
    """Row numbers of equal keys, the n-th with the n-th if keys occur several times.  -> (P, 2)"""
    sides = []
    for table in (first, second):
        side = table[keys].copy()
        side["nth"] = table.groupby(keys).cumcount()
        side["row"] = range(len(table))
        sides.append(side)
    both = sides[0].merge(sides[1], on=[*keys, "nth"])
    return both[["row_x", "row_y"]].to_numpy(dtype=np.int64)


def most_changed(first: Run, second: Run, pairs: Pairs) -> pd.DataFrame:
    """Of the stories that both continued, those whose loss changed most, the largest change first.

    By nats per token if the tokens are the same, otherwise by bits per byte. One prompt per story,
    which is its row in the first run's evaluation split. change: second - first.
    """
    if first.stories is None or second.stories is None:
        return pd.DataFrame()
    unit, loss, size = "bits per byte", "bits", "bytes"
    if pairs.same_tokens:
        unit, loss, size = "nats per token", "nats", "tokens"
    sides = []
    for side, run in enumerate((first, second)):
        assert run.stories is not None
        samples = run.samples.iloc[pairs.samples[:, side]].reset_index(drop=True)
        losses = (run.stories[loss] / run.stories[size]).astype(float)
        sides.append(samples.assign(loss=samples["story"].map(losses)))
    one, other = sides
    table = one[["story", "prompt", "reference"]].assign(
        unit=unit,
        first=one["loss"],
        second=other["loss"],
        change=other["loss"] - one["loss"],
        first_continuation=one["continuation"],
        second_continuation=other["continuation"],
    )
    same_text = table["first_continuation"] == table["second_continuation"]
    table = table[np.isfinite(table["change"]) & ~(same_text & (table["change"] == 0))]
    table = table.drop_duplicates("story")
    largest_first = table["change"].abs().sort_values(ascending=False, kind="stable").index
    return table.loc[largest_first[:SHOWN]]
