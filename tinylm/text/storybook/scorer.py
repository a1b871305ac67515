"""The exact probability of a text: replays the generator over every way to tell it."""

from __future__ import annotations

import math
from functools import cache

from tinylm.text.storybook.corpus import normalise
from tinylm.text.storybook.telling import Telling, render


@cache
def _words(piece: str) -> tuple[str, ...]:
    return tuple("a" if word == "an" else word for word in normalise(piece).split())


def score(text: str) -> tuple[float, int]:
    """(ln P(words of text), number of ways to tell it); (-inf, 0) where the generator cannot write it.

    Every option of every choice is tried; a telling is dropped once its words are no prefix of the text's.
    The probabilities of the tellings that end exactly with the text are summed.
    """
    wanted = _words(text)
    found: list[float] = []
    stack: list[tuple[Telling, int, float, list[str]]] = [(Telling(), 0, 0.0, [])]
    while stack:
        telling, position, log_prob, before = stack.pop()
        choice = telling.advance()
        position = _follow(telling.pieces, wanted, position)
        if position < 0:
            continue
        pieces = before + telling.pieces
        if choice is None:
            if position == len(wanted) and normalise(render(pieces)) == normalise(text):
                found.append(log_prob)
            continue
        for index in range(len(choice.weighted.options)):
            if index not in choice.banned:
                branch = telling.fork()
                branch.take(choice, index)
                weight = choice.weighted.log_prob(index, choice.banned)
                stack.append((branch, position, log_prob + weight, pieces))
    if not found:
        return -math.inf, 0
    top = max(found)
    return top + math.log(math.fsum(math.exp(value - top) for value in found)), len(found)


def _follow(pieces: list[str], wanted: tuple[str, ...], position: int) -> int:
    """The position in wanted after the words of pieces, or -1 where they differ."""
    for piece in pieces:
        words = _words(piece)
        if wanted[position : position + len(words)] != words:
            return -1
        position += len(words)
    return position
