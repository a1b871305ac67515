"""The class of each word: as the generator drew it, or looked up in the lexicon.

`word_classes.txt` lists the closed classes of English and the words of the generator's phrases.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache

from tinylm.storybook.corpus import normalise
from tinylm.storybook.lexicon import KINDS, read_pairs, read_sections
from tinylm.storybook.scorer import Parse, parse_all, without_an

OPEN = ("noun", "verb", "adjective", "adverb", "name")
Classes = tuple[str, ...]
Table = dict[str, Classes]
Words = Sequence[str]
UNLISTED: Classes = ("",)

_MARK = re.compile(r"[^A-Za-z'^]")


def class_lists() -> dict[str, list[str]]:
    """The words that `word_classes.txt` lists for each class."""
    lists = {}
    for name, lines in read_sections("word_classes.txt").items():
        lists[name.replace("_", " ")] = " ".join(lines).split()
    return lists


@cache
def phrase_words() -> Table:
    """The classes of each word of the closed classes and of the phrases, likeliest first."""
    table: Table = {}
    for name, words in class_lists().items():
        for word in words:
            table[word] = (*table.get(word, ()), name)
    return table


@cache
def _class_of_origin() -> dict[str, str]:
    """What an entry's words are, for each kind or kind.part.

    A noun is the last of its words (before a preposition), an adjective or a verb the first.
    Surnames and the like come last in the file, since elsewhere they are mostly common words.
    """
    classes: dict[str, str] = {}
    for name, kinds in read_pairs("kind_classes.txt"):
        classes |= dict.fromkeys(kinds.split(), name)
    return classes


def _words_of(origin: str) -> Iterator[Words]:
    """The words of each entry of an origin `kind.part`, of all lists `kind` and `kind:style`."""
    kind, _, part = origin.partition(".")
    for name, listed in KINDS.items():
        if name.partition(":")[0] == kind:
            for entry in listed.options:
                yield normalise(entry.parts[part]).split()


@cache
def all_words() -> Table:
    """`phrase_words`, and the words of every entry of the lexicon."""
    table = dict(phrase_words())
    for origin, name in _class_of_origin().items():
        for words in _words_of(origin):
            for word, word_class in zip(words, _entry_classes(name, words), strict=True):
                open_class = "noun" if word_class == "modifier" else word_class
                if open_class in OPEN and open_class not in table.get(word, ()):
                    table[word] = (*table.get(word, ()), open_class)
    return table


@cache
def _adjectives() -> frozenset[str]:
    """The adjectives of the phrases, and the first word of each adjective of the lexicon."""
    words = set(class_lists()["adjective"])
    for origin, name in _class_of_origin().items():
        if name == "adjective":
            words.update(entry[0] for entry in _words_of(origin))
    return frozenset(words)


def _entry_classes(name: str, words: Words) -> list[str]:
    """The class of each word of an entry (see `_class_of_origin`)."""
    if name == "noun":
        return _noun_phrase(words)
    if name == "adjective":
        return [name, *_noun_phrase(words[1:])]
    if name == "verb":
        return [name, *_after_verb(words[1:])]
    return [name] * len(words)


def _closed(word: str) -> str:
    """The word's closed class (or adverb), "" if it has none."""
    first = phrase_words().get(word, UNLISTED)[0]
    return "" if first in OPEN and first != "adverb" else first


def _noun_phrase(words: Words) -> list[str]:
    classes = [_closed(word) for word in words]
    for i, word in enumerate(words):
        if classes[i]:
            continue
        after = classes[i + 1] if i + 1 < len(words) else "preposition"
        if after in ("preposition", "conjunction"):
            classes[i] = "noun"
        elif word in _adjectives():
            classes[i] = "adjective"
        else:
            classes[i] = "modifier"
    return classes


def _after_verb(words: Words) -> list[str]:
    start = 0
    while start < len(words) and _closed(words[start]) != "article":
        start += 1
    before = [_closed(word) or "other" for word in words[:start]]
    return before + _noun_phrase(words[start:])


def look_up(words: Words) -> list[str]:
    """The class of each word (lower case, no marks) of a text, "" for words that the lexicon lacks.

    A word gets the first of its classes, except: the noun after an article, a determiner or an
    adjective (before a noun the adjective); the verb after a pronoun, an auxiliary, "to" or "not";
    the name after mr and mrs. Forms of have and do are verbs before an article or determiner.
    """
    table = all_words()
    return _resolve(words, [table.get(word, UNLISTED) for word in words])


def _resolve(words: Words, options: Sequence[Classes]) -> list[str]:
    chosen: list[str] = []
    word_before = class_before = ""
    followers = [*options[1:], UNLISTED]
    for word, classes, after in zip(words, options, followers, strict=False):
        expected = _expected_classes(classes[0], word_before, class_before, after)
        fitting = [name for name in expected if name in classes]
        class_before = (fitting or classes)[0]
        chosen.append(class_before)
        word_before = word
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


def word_classes(words: Words) -> tuple[list[str], list[bool]] | None:
    """The classes of a story's first words as the generator drew them, and where marks precede.

    The generator is run along the words (lower case, letters only); None if it cannot produce them.
    What it drew from a list has that list's class; the words of its phrases are looked up.
    """
    wanted = without_an(words)
    parse = next(parse_all(wanted, opening=True), None)
    if parse is None or not wanted:
        return None
    rows = list(_classes_of_pieces(parse))[: len(wanted)]
    options = [classes for classes, _ in rows]
    return _resolve(wanted, options), [marked for _, marked in rows]


def _classes_of_pieces(parse: Parse) -> Iterator[tuple[Classes, bool]]:
    """(classes, whether a mark precedes it) of each word of a telling."""
    marked = True
    for piece, origin in zip(parse.pieces, parse.origins, strict=True):
        chunks = piece.split()
        words = [normalise(chunk) for chunk in chunks]
        options = _piece_classes([word for word in words if word], origin)
        for chunk, word in zip(chunks, words, strict=True):
            before, *after = re.split(r"[A-Za-z']+", chunk)
            marked = marked or bool(_MARK.search(before))
            if word:
                yield options.pop(0), marked
                marked = bool(_MARK.search("".join(after)))


def _piece_classes(words: Words, origin: str) -> list[Classes]:
    if not origin:
        return [phrase_words().get(word, UNLISTED) for word in words]
    names = _entry_classes(_class_of_origin()[origin], words)
    return [(name,) for name in names]
