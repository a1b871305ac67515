"""What two runs were both measured on, and so may be compared on."""

import dataclasses
from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np

from tinylm.compare.runs import Run


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Stories and samples of two runs by their places in each, and a line for each thing that cannot be compared.

    stories (P, 2), samples (Q, 2): places in the tables of first and second. same_tokens: the stories are the same
    tokens of the same vocabulary, of which the same are scored, so that perplexities may be compared.
    """

    stories: np.ndarray
    samples: np.ndarray
    same_tokens: bool
    notes: list[str]


def pair_up(first: Run, second: Run) -> Pairs:
    """Stories are the same where their texts are; samples where story, prompt and reference are."""
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
            notes.append("the texts are normalised differently: bits per byte are of what each run models of them")
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
    """Places of equal keys in both, the n-th with the n-th where a key stands several times.  -> (P, 2)"""
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
