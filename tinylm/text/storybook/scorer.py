"""The exact probability of a text: replays the generator over every way to tell it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

from tinylm.text.storybook.corpus import normalise
from tinylm.text.storybook.telling import Telling, first_piece, render


@cache
def _words(piece: str) -> tuple[str, ...]:
    return tuple("a" if word == "an" else word for word in normalise(piece).split())


def score(text: str) -> tuple[float, int]:
    """(ln P(words of text), number of ways to tell it); (-inf, 0) if the generator cannot write it.

    Every option of every choice is tried; a telling is dropped once its words are no prefix of the text's.
    The probabilities of the tellings that end exactly with the text are summed.
    """
    found = [log_prob for log_prob, pieces, _ in tellings(_words(text)) if normalise(render(pieces)) == normalise(text)]
    if not found:
        return -math.inf, 0
    top = max(found)
    return top + math.log(math.fsum(math.exp(value - top) for value in found)), len(found)


def tellings(wanted: tuple[str, ...], opening: bool = False) -> Iterator[tuple[float, list[str], list[str]]]:
    """Every way to tell just these words ("a" for "an"): its ln P, its pieces and their origins (see `Telling`).

    opening: the words are the start of a story; a telling is returned as soon as it contains them all.
    """
    stack: list[tuple[Telling, int, float, list[str], list[str]]] = [(Telling(), 0, 0.0, [], [])]
    while stack:
        telling, position, log_prob, pieces, origins = stack.pop()
        choice = telling.advance()
        position = _follow(telling.pieces, wanted, position, opening)
        if position < 0:
            continue
        pieces, origins = pieces + telling.pieces, origins + telling.origins
        if position == len(wanted) and (opening or choice is None):
            yield log_prob, pieces, origins
        elif choice is not None:
            for index in range(len(choice.weighted.options)):
                first = first_piece(telling, choice, index)
                if index not in choice.banned and _follow([first], wanted, position, opening) >= 0:
                    branch = telling.fork()
                    branch.take(choice, index)
                    weight = choice.weighted.log_prob(index, choice.banned)
                    stack.append((branch, position, log_prob + weight, pieces, origins))


def _follow(pieces: list[str], wanted: tuple[str, ...], position: int, opening: bool) -> int:
    """The position in wanted after the words of pieces, or -1 if they differ."""
    for piece in pieces:
        words = _words(piece)
        rest = wanted[position : position + len(words)]
        if rest != (words[: len(rest)] if opening else words):
            return -1
        position += len(rest)
    return position
