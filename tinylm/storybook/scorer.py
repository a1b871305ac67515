"""The exact probability of a text: replays the generator over every way to tell it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from tinylm.storybook.corpus import normalise
from tinylm.storybook.telling import Telling, first_piece, render

Missed = Callable[[int, str, str], None]


@cache
def words_of(piece: str) -> tuple[str, ...]:
    """The words of a piece, lower case and letters only, "a" for "an"."""
    return tuple("a" if word == "an" else word for word in normalise(piece).split())


def score(text: str) -> tuple[float, int]:
    """(ln P(words of text), number of ways to tell it); (-inf, 0) if the generator cannot write it.

    Every option of every choice is tried; a telling is dropped once its words are no prefix of the text's.
    The probabilities of the tellings that end exactly with the text are summed.
    """
    found = [
        log_prob
        for log_prob, pieces, _ in tellings(words_of(text))
        if normalise(render(pieces)) == normalise(text)
    ]
    if not found:
        return -math.inf, 0
    top = max(found)
    return top + math.log(math.fsum(math.exp(value - top) for value in found)), len(found)


def tellings(
    wanted: tuple[str, ...], opening: bool = False, missed: Missed = lambda *_: None
) -> Iterator[tuple[float, list[str], list[str]]]:
    """Every way to tell just these words ("a" for "an"): its ln P, its pieces and their origins (see `Telling`).

    opening: the words are the start of a story; a telling is returned as soon as it contains them all.
    missed: told where a telling and the words part: how many of the words it has told, its own next word ("" where
    the story ends) and that word's origin.
    """
    stack: list[tuple[Telling, int, float, list[str], list[str]]] = [(Telling(), 0, 0.0, [], [])]
    while stack:
        telling, position, log_prob, pieces, origins = stack.pop()
        choice = telling.advance()
        position = _follow(telling.pieces, telling.origins, wanted, position, opening, missed)
        if position < 0:
            continue
        pieces, origins = pieces + telling.pieces, origins + telling.origins
        if position == len(wanted) and (opening or choice is None):
            yield log_prob, pieces, origins
        elif choice is None:
            missed(position, "", "")
        else:
            for index in range(len(choice.weighted.options)):
                first, origin = first_piece(telling, choice, index)
                if (
                    index not in choice.banned
                    and _follow([first], [origin], wanted, position, opening, missed) >= 0
                ):
                    branch = telling.fork()
                    branch.take(choice, index)
                    weight = choice.weighted.log_prob(index, choice.banned)
                    stack.append((branch, position, log_prob + weight, pieces, origins))


def _follow(
    pieces: Sequence[str],
    origins: Sequence[str],
    wanted: tuple[str, ...],
    position: int,
    opening: bool,
    missed: Missed,
) -> int:
    """The position in wanted after the words of pieces, or -1 if they differ."""
    for piece, origin in zip(pieces, origins, strict=True):
        words = words_of(piece)
        rest = wanted[position : position + len(words)]
        if rest != (words[: len(rest)] if opening else words):
            same = 0
            while same < len(rest) and rest[same] == words[same]:
                same += 1
            missed(position + same, words[same], origin)
            return -1
        position += len(rest)
    return position


def reach(words: Sequence[str], ended: bool) -> tuple[int, set[tuple[str, str]]]:
    """(how many of a text's words some story begins with, what those stories go on with in place of the next).

    words: lower case, letters only. ended: the text is said to end with its last word. What stories go on with are
    (word, origin) pairs, ("", "") where a story ends; none if the text is a story, or may become one.
    """
    furthest, instead = 0, set[tuple[str, str]]()

    def missed(position: int, word: str, origin: str) -> None:
        nonlocal furthest
        if position > furthest:
            furthest = position
            instead.clear()
        if position == furthest:
            instead.add((word, origin))

    plain = tuple("a" if word == "an" else word for word in words)
    if next(tellings(plain, opening=not ended, missed=missed), None) is not None:
        return len(plain), set()
    return furthest, instead
