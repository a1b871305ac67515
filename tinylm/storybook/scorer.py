"""Every way to tell a text, with its probability: replays the generator."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache

from tinylm.storybook.corpus import Call, Telling, normalise

Missed = Callable[[int, str, str], None]  # see `parse_all`
Words = tuple[str, ...]
Options = set[tuple[str, str]]  # (word, origin)


@cache
def words_of(piece: str) -> Words:
    """The words of a piece, lower case and letters only, "a" for "an"."""
    return with_a(normalise(piece).split())


def with_a(words: Sequence[str]) -> Words:
    """The words with "a" for "an", as the generator's phrases have it."""
    return tuple({"an": "a"}.get(word, word) for word in words)


def parse_all(
    wanted: Words, opening: bool = False, missed: Missed = lambda *_: None
) -> Iterator[float]:
    """ln P of every way to tell just these words ("a" for "an").

    Every option of every choice is tried; a telling is dropped once its words are no prefix.
    opening: the words are the start of a story; a telling is returned once it contains them all.
    missed: called where a telling departs from the words. Its arguments are the number of words
    that agree, the telling's next word ("" where the story ends) and that word's origin.
    """
    stack = [(Telling([Call("story")]), 0, 0.0)]
    while stack:
        telling, position, log_prob = stack.pop()
        choice = telling.advance()
        position = _follow(telling.pieces, telling.origins, wanted, position, opening, missed)
        if position < 0:
            continue
        if position == len(wanted) and (opening or choice is None):
            yield log_prob
            continue
        if choice is None:
            missed(position, "", "")
            continue
        for index in range(len(choice.weighted.options)):
            if index in choice.banned:
                continue
            piece, origin = telling.first_piece(choice, index)
            if _follow([piece], [origin], wanted, position, opening, missed) < 0:
                continue
            branch = telling.fork()
            branch.take(choice, index)
            of_choice = choice.weighted.log_prob(index, choice.banned)
            stack.append((branch, position, log_prob + of_choice))


def _follow(
    pieces: Sequence[str],
    origins: Sequence[str],
    wanted: Words,
    position: int,
    opening: bool,
    missed: Missed,
) -> int:
    """The position in `wanted` after the words of the pieces, or -1 if they differ."""
    for piece, origin in zip(pieces, origins, strict=True):
        words = words_of(piece)
        rest = wanted[position : position + len(words)]
        expected = words[: len(rest)] if opening else words
        if rest != expected:
            same = 0
            while same < len(rest) and rest[same] == words[same]:
                same += 1
            missed(position + same, words[same], origin)
            return -1
        position += len(rest)
    return position


def reach(words: Sequence[str], ended: bool) -> tuple[int, Options]:
    """(number of a text's first words that some story begins with, what may follow them instead).

    words: lower case, letters only. ended: the text ends with its last word. The second is empty if
    the text is a story or may become one. It has ("", "") if a story may end there.
    """
    furthest = 0
    instead: Options = set()

    def missed(position: int, word: str, origin: str) -> None:
        nonlocal furthest
        if position > furthest:
            furthest = position
            instead.clear()
        if position == furthest:
            instead.add((word, origin))

    wanted = with_a(words)
    for _ in parse_all(wanted, opening=not ended, missed=missed):
        return len(wanted), set()
    return furthest, instead
