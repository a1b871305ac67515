"""The class of each word: as the generator drew it, or looked up in the lexicon.

`word_classes.txt` lists the closed classes of English and the words of the generator's phrases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from tinylm.storybook.corpus import normalise
from tinylm.storybook.lexicon import KINDS, Weighted, read_pairs, read_sections
from tinylm.storybook.scorer import parse_all

OPEN = ("noun", "verb", "adjective", "adverb", "name")
Classes = tuple[str, ...]

# What an entry's words are, for each kind or kind.part. A noun is the last of its words (before a
# preposition), an adjective or a verb the first. Surnames and the like come last in the file, since
# elsewhere they are mostly common words.
KIND_CLASSES = read_pairs("kind_classes.txt")
_MARK = re.compile(r"[^A-Za-z'^]")


def class_lists() -> dict[str, list[str]]:
    """The words that `word_classes.txt` lists for each class."""
    sections = read_sections("word_classes.txt")
    return {name.replace("_", " "): " ".join(lines).split() for name, lines in sections.items()}


@cache
def phrase_words() -> dict[str, Classes]:
    """The classes of each word of the closed classes and of the phrases, likeliest first."""
    table: dict[str, Classes] = {}
    for name, words in class_lists().items():
        for word in words:
            table[word] = (*table.get(word, ()), name)
    return table


@cache
def _class_of_origin() -> dict[str, str]:
    return {kind: name for name, kinds in KIND_CLASSES for kind in kinds.split()}


def _lists_of(kind: str) -> Iterator[Weighted]:
    """The lists of a kind: `kind` or all of `kind:style`."""
    return (listed for name, listed in KINDS.items() if name.partition(":")[0] == kind)


@cache
def all_words() -> dict[str, Classes]:
    """`phrase_words`, and the words of every entry of the lexicon."""
    table = dict(phrase_words())
    for name, kinds in KIND_CLASSES:
        for origin in kinds.split():
            kind, _, part = origin.partition(".")
            for listed in _lists_of(kind):
                for entry in listed.options:
                    _add_entry(table, name, normalise(entry.parts[part]).split())
    return table


def _add_entry(table: dict[str, Classes], name: str, words: Sequence[str]) -> None:
    for word, word_class in zip(words, _entry_classes(name, words), strict=True):
        if word_class == "modifier":
            word_class = "noun"
        if word_class in OPEN and word_class not in table.get(word, ()):
            table[word] = (*table.get(word, ()), word_class)


@cache
def _adjectives() -> frozenset[str]:
    """The adjectives of the phrases, and the first word of each adjective of the lexicon."""
    words = set(class_lists()["adjective"])
    for kind, name in _class_of_origin().items():
        if name == "adjective":
            for listed in _lists_of(kind):
                words.update(normalise(entry.parts[""]).split()[0] for entry in listed.options)
    return frozenset(words)


def _entry_classes(name: str, words: Sequence[str]) -> list[str]:
    """The class of each word of an entry (see `KIND_CLASSES`)."""
    if name == "noun":
        return _noun_phrase(words)
    if name == "adjective":
        return [name, *_noun_phrase(words[1:])]
    if name == "verb":
        return [name, *_after_verb(words[1:])]
    return [name] * len(words)


def _closed(word: str) -> str:
    """The word's closed class (or adverb), "" if it has none."""
    first = phrase_words().get(word, ("",))[0]
    return "" if first in OPEN and first != "adverb" else first


def _noun_phrase(words: Sequence[str]) -> list[str]:
    classes = [_closed(word) for word in words]
    for i, word in enumerate(words):
        if classes[i]:
            continue
        last = i + 1 == len(words) or _closed(words[i + 1]) in ("preposition", "conjunction")
        if last:
            classes[i] = "noun"
        elif word in _adjectives():
            classes[i] = "adjective"
        else:
            classes[i] = "modifier"
    return classes


def _after_verb(words: Sequence[str]) -> list[str]:
    start = 0
    while start < len(words) and _closed(words[start]) != "article":
        start += 1
    before = [_closed(word) or "other" for word in words[:start]]
    return before + _noun_phrase(words[start:])


def look_up(words: Sequence[str]) -> list[str]:
    """The class of each word (lower case, no marks) of a text, "" for words that the lexicon lacks.

    A word gets the first of its classes, except: the noun after an article, a determiner or an
    adjective (before a noun the adjective); the verb after a pronoun, an auxiliary, "to" or "not";
    the name after mr and mrs. Forms of have and do are verbs before an article or determiner.
    """
    return _resolve(words, [all_words().get(word, ("",)) for word in words])


def _resolve(words: Sequence[str], options: Sequence[Classes]) -> list[str]:
    chosen: list[str] = []
    for i, classes in enumerate(options):
        word_before = words[i - 1] if i else ""
        class_before = chosen[-1] if i else ""
        after = options[i + 1] if i + 1 < len(options) else ("",)
        wanted = _expected_classes(classes[0], word_before, class_before, after)
        chosen.append(next((name for name in wanted if name in classes), classes[0]))
    return chosen


def _expected_classes(likeliest: str, word: str, word_class: str, after: Classes) -> Classes:
    """The classes to prefer, given the likeliest one, the word before, and the classes after."""
    if word in ("mr", "mrs"):
        return ("name",)
    if likeliest == "auxiliary":
        return ("verb",) if after[0] in ("article", "determiner") else ()
    if word in ("to", "not") or word_class in ("pronoun", "auxiliary"):
        return ("verb", "adjective")
    if word_class in ("article", "determiner", "adjective"):
        return ("adjective", "noun") if "noun" in after else ("noun", "adjective")
    return ()


def word_classes(words: Sequence[str]) -> tuple[list[str], list[bool]] | None:
    """The classes of a story's first words as the generator drew them, and where marks precede.

    The generator is run along the words (lower case, letters only); None if it cannot produce them.
    What it drew from a list has that list's class; the words of its phrases are looked up.
    """
    wanted = tuple("a" if word == "an" else word for word in words)
    parse = next(parse_all(wanted, opening=True), None) if wanted else None
    if parse is None:
        return None
    rows = list(_classes_of_pieces(parse.pieces, parse.origins))[: len(wanted)]
    classes = _resolve(wanted, [options for options, _ in rows])
    return classes, [marked for _, marked in rows]


def _classes_of_pieces(
    pieces: Sequence[str], origins: Sequence[str]
) -> Iterator[tuple[Classes, bool]]:
    """(classes, whether a mark precedes it) of each word of a telling."""
    marked = True
    for piece, origin in zip(pieces, origins, strict=True):
        chunks = piece.split()
        words = [normalise(chunk) for chunk in chunks]
        options = _piece_classes([word for word in words if word], origin)
        for chunk, word in zip(chunks, words, strict=True):
            before, *after = re.split(r"[A-Za-z']+", chunk)
            marked = marked or bool(_MARK.search(before))
            if word:
                yield options.pop(0), marked
                marked = bool(_MARK.search("".join(after)))


def _piece_classes(words: Sequence[str], origin: str) -> list[Classes]:
    if origin:
        return [(name,) for name in _entry_classes(_class_of_origin()[origin], words)]
    return [phrase_words().get(word, ("",)) for word in words]
