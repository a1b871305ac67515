"""Which stories and samples two runs share, and the stories that changed most."""

import dataclasses
from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np

from tinylm.compare.runs import Run, Stories


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
        return Pairs(
            none,
            none,
            False,
            [f"{lacking}: no losses of single stories, so no intervals of differences"],
        )
    stories = _matches(first.stories.text_ids, second.stories.text_ids)
    samples = _matches(_sample_keys(first), _sample_keys(second))
    notes, one, other = [], len(first.stories), len(second.stories)
    if not len(stories):
        notes.append(
            "the evaluation texts differ: only bits per byte are compared, each run's over its own stories"
        )
    elif len(stories) < max(one, other):
        notes.append(
            f"the evaluation texts differ: compared over the {len(stories)} stories of {one} and {other} that both hold"
        )
    same_tokens = len(stories) > 0
    left, right = stories.T
    if same_tokens and [first.stories.tokens_ids[i] for i in left] != [
        second.stories.tokens_ids[i] for i in right
    ]:
        same_tokens = False
        notes.append(
            "the vocabularies differ: perplexities are not of the same tokens; bits per byte are compared"
        )
        if (first.stories.n_bytes[left] != second.stories.n_bytes[right]).any():
            notes.append(
                "the texts are normalised differently: bits per byte are of what each run models of them, "
                "those of the raw text of every byte"
            )
    elif same_tokens and (first.stories.tokens[left] != second.stories.tokens[right]).any():
        same_tokens = False
        notes.append(
            "the layouts score other tokens: perplexities are not compared; bits per byte are"
        )
    if first.samples and second.samples and not len(samples):
        notes.append("the prompts or their references differ: BLEU is not compared")
    return Pairs(stories, samples, same_tokens, notes)


def _sample_keys(run: Run) -> list[tuple[str, str, str]]:
    """Story, prompt and reference of each sample."""
    assert run.stories is not None
    return [
        (run.stories.text_ids[int(row["story"])], row["prompt"], row["reference"])
        for row in run.samples
    ]


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
        found.setdefault(
            story,
            ChangedStory(story, unit, float(losses[0][story]), float(losses[1][same]), *texts),
        )
    known = [
        changed for changed in found.values() if np.isfinite(changed.change) and changed.differs
    ]
    return sorted(known, key=lambda changed: -abs(changed.change))[:shown]


def _losses_of(
    first: Stories, second: Stories, pairs: Pairs
) -> tuple[str, tuple[np.ndarray, np.ndarray]]:
    with np.errstate(
        divide="ignore", invalid="ignore"
    ):  # an empty story has neither a loss nor a prompt
        if pairs.same_tokens:
            return "nats per token", (first.nats / first.tokens, second.nats / second.tokens)
        return "bits per byte", (first.bits / first.n_bytes, second.bits / second.n_bytes)
