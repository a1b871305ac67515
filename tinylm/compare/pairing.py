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


@dataclasses.dataclass(frozen=True)
class ChangedStory:
    """A story, its loss under both runs, and both continuations of the same prompt."""

    story: int  # its row in the first run's evaluation split
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


def most_changed(first: Run, second: Run, pairs: Pairs) -> list[ChangedStory]:
    """Of the stories that both continued, those whose loss changed most, the largest change first.

    By nats per token if the tokens are the same, otherwise by bits per byte. One prompt per story.
    """
    if first.stories is None or second.stories is None:
        return []
    unit, loss, size = "bits per byte", "bits", "bytes"
    if pairs.same_tokens:
        unit, loss, size = "nats per token", "nats", "tokens"
    one = first.stories[loss] / first.stories[size]
    other = second.stories[loss] / second.stories[size]
    changed: dict[int, ChangedStory] = {}
    for row, other_row in pairs.samples:
        sample = first.samples.iloc[row]
        match = second.samples.iloc[other_row]
        story = ChangedStory(
            int(sample["story"]),
            unit,
            float(one[sample["story"]]),
            float(other[match["story"]]),
            sample["prompt"],
            sample["reference"],
            sample["continuation"],
            match["continuation"],
        )
        differs = story.change != 0 or story.first_continuation != story.second_continuation
        if np.isfinite(story.change) and differs:
            changed.setdefault(story.story, story)
    largest_first = sorted(changed.values(), key=lambda story: -abs(story.change))
    return largest_first[:SHOWN]
