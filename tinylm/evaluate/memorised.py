"""Memorisation: how much of a continuation the nearest training story has.

The nearest story is the train story that shares the most 4-grams with a text. The stories' own
continuations, which are not in train, show how much is shared by chance.
"""

import functools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pandas as pd

from tinylm.base.progress import Progress
from tinylm.evaluate.intervals import mean
from tinylm.evaluate.scoring import value_and_interval
from tinylm.run.evaluated import Memorised, Nearness
from tinylm.text.diversity import ngrams
from tinylm.text.words import Splitter, spaced
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import Tokenizer

N = 4  # words of the n-grams by which the nearest story is found


def nearest_story(texts: Sequence[Sequence[str]], stories: Iterable[Sequence[str]]) -> list[float]:
    """For each text, the largest share of its distinct 4-grams that a single story has.

    NaN for a text without a 4-gram.
    """
    owners: dict[tuple[str, ...], list[int]] = defaultdict(list)
    grams_of_texts = [set(ngrams(text, N)) for text in texts]
    for number, grams in enumerate(grams_of_texts):
        for gram in grams:
            owners[gram].append(number)
    most_shared = [0] * len(texts)
    for story in stories:
        shared: Counter[int] = Counter()
        for gram in owners.keys() & set(ngrams(story, N)):
            shared.update(owners[gram])
        for number, count in shared.items():
            most_shared[number] = max(most_shared[number], count)
    nearness = []
    for count, grams in zip(most_shared, grams_of_texts):
        nearness.append(count / len(grams) if grams else float("nan"))
    return nearness


def words_of(tokenizer: Tokenizer, ids: Iterable[int]) -> list[str]:
    """The words that ids spell, without case and punctuation."""
    words = _bare_splitter()(tokenizer.decode(ids))
    return spaced(" ".join(words)).split()


@functools.cache
def _bare_splitter() -> Splitter:
    return Splitter(lower_case=True, punctuation="drop")


def _train_stories(tokenizer: Tokenizer, train: TokenStore) -> Iterator[list[str]]:
    """Yield the words of each train story, split by `words_of`."""
    with Progress("train stories compared", len(train), "stories", if_slow=True) as progress:
        for index in range(len(train)):
            yield words_of(tokenizer, train.story(index).tolist())
            progress.advance(1)


def measure_memorised(samples: pd.DataFrame, tokenizer: Tokenizer, train: TokenStore) -> Memorised:
    """The share of 4-grams that the nearest train story has, for continuations and for references."""
    texts = [words_of(tokenizer, ids) for ids in [*samples["ids"], *samples["reference_ids"]]]
    nearness = np.array(nearest_story(texts, _train_stories(tokenizer, train)))
    continuations, references = np.split(nearness, 2)
    return Memorised(_mean_nearness(continuations), _mean_nearness(references))


def _mean_nearness(of_texts: np.ndarray) -> Nearness:
    """The mean over the texts that have a 4-gram, with its 95 % bootstrap interval."""
    nearest = of_texts[~np.isnan(of_texts)]
    if not len(nearest):
        return Nearness(0)
    return Nearness(len(nearest), value_and_interval(nearest, mean))
