"""Texts from an empty prompt, judged by the generator: mistakes, likelihood and diversity."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from tinylm.evaluate.intervals import pooled_ratio, words_per_error
from tinylm.evaluate.scoring import value_and_interval
from tinylm.run.evaluated import FreeTexts
from tinylm.storybook.language import END
from tinylm.storybook.truth import NextWords, Truth
from tinylm.storybook.world import World
from tinylm.text.diversity import distinct_n

MANY = 40  # persons: the storybook's hero is chosen among more, everybody else among fewer
NGRAM = 4


class FreeText(NamedTuple):
    """A text that the generator read, up to the first impossible word or `<unk>`.

    surprises: the generator's, at each possible word, in nats. is_mistaken: whether an impossible word
    follows. name: the hero's; None if the text has none, as in every world but the storybook.
    """

    text: str
    surprises: list[float]
    is_mistaken: bool
    name: str | None


def read_free_text(text: str, is_finished: bool, world: World) -> FreeText:
    """is_finished: whether the text ended by itself."""
    readable, unknown, _ = text.partition("<unk>")
    words = world.normalise(readable).split()
    if is_finished and not unknown:
        words.append(END)
    truth = Truth(world)
    surprises: list[float] = []
    name = None
    may_name_hero = names_heroes(world)
    for word in words:
        is_hero = may_name_hero and name is None and chooses_hero(truth.next_words())
        prob = truth.read(word)
        if prob == 0.0:
            break
        surprises.append(-math.log(prob))
        name = word if is_hero else name
    return FreeText(world.normalise(text), surprises, len(surprises) < len(words), name)


def chooses_hero(following: NextWords) -> bool:
    """Whether the generator chooses the storybook's hero next."""
    return following.kind == "person" and len(following.probs) > MANY


def usual_surprises(stories: Sequence[FreeText]) -> np.ndarray:
    """The mean surprise at the first, second, ... word of the generator's stories that are so long, in nats.

    Stories begin with names and places, which are surprising, so texts are only comparable word by word.
    """
    of_stories = pd.DataFrame([story.surprises for story in stories])
    means: np.ndarray = of_stories.mean().to_numpy()
    return means


def names_heroes(world: World) -> bool:
    """Whether the stories have heroes that `chooses_hero` finds."""
    return any(len(words.options) > MANY for words in world.lists_of_kind("person"))


def judge(texts: Sequence[FreeText], usual: np.ndarray, world: World, copies: int = 1) -> FreeTexts:
    """usual: from `usual_surprises`; its last value stands for all later words.

    copies: how often each text counts as written in `distinct`, for a method that varies nothing.
    """
    names = {text.name for text in texts} - {None}
    read = [(len(text.surprises) + text.is_mistaken, text.is_mistaken) for text in texts]
    surprise = []
    for text in texts:
        if text.surprises:
            words = len(text.surprises)
            places = np.minimum(np.arange(words), len(usual) - 1)
            surprise.append((sum(text.surprises) - usual[places].sum(), words))
    written = [text.text for text in texts for _ in range(copies)]
    return FreeTexts(
        texts=len(texts),
        words=value_and_interval(read, words_per_error) if any(m for _, m in read) else None,
        excess_nats=value_and_interval(surprise, pooled_ratio) if surprise else None,
        names=len(names) if names_heroes(world) else None,
        distinct=round(distinct_n(written, NGRAM), 6),
    )
