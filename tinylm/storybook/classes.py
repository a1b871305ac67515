"""The class of each word: from the generator, which knows what it drew, or looked up in its lexicon."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from tinylm.storybook.corpus import normalise
from tinylm.storybook.lexicon import grammar
from tinylm.storybook.lexicon.kinds import KINDS
from tinylm.storybook.scorer import tellings

OPEN = ("noun", "verb", "adjective", "adverb", "name")
_LISTS = {
    "article": grammar.ARTICLES,
    "determiner": grammar.DETERMINERS,
    "preposition": grammar.PREPOSITIONS,
    "pronoun": grammar.PRONOUNS,
    "object pronoun": grammar.OBJECT_PRONOUNS,
    "auxiliary": grammar.AUXILIARIES,
    "conjunction": grammar.CONJUNCTIONS,
    "adverb": grammar.ADVERBS,
    "participle": grammar.PARTICIPLES,
    "verb": grammar.VERBS,
    "noun": grammar.NOUNS,
    "adjective": grammar.ADJECTIVES,
    "other": grammar.OTHER,
}
_MARK = re.compile(r"[^A-Za-z'^]")
Classes = tuple[str, ...]


@cache
def phrase_words() -> dict[str, Classes]:
    """The classes of each word of the closed classes and of the generator's phrases, likeliest first."""
    table: dict[str, Classes] = {}
    for name, words in _LISTS.items():
        for word in words.split():
            table[word] = (*table.get(word, ()), name)
    return table


@cache
def _kinds() -> dict[str, str]:
    return {kind: name for name, kinds in grammar.KIND_CLASSES for kind in kinds.split()}


@cache
def all_words() -> dict[str, Classes]:
    """`phrase_words` and the words of every entry of the lexicon."""
    table = dict(phrase_words())
    for name, kinds in grammar.KIND_CLASSES:
        for listed in kinds.split():
            kind, _, part = listed.partition(".")
            for lexicon in (
                lexicon for key, lexicon in KINDS.items() if key.partition(":")[0] == kind
            ):
                for entry in lexicon.options:
                    words = normalise(entry.parts[part]).split()
                    for word, own in zip(words, _entry_classes(name, words), strict=True):
                        found = "noun" if own == "modifier" else own
                        if found in OPEN and found not in table.get(word, ()):
                            table[word] = (*table.get(word, ()), found)
    return table


@cache
def _adjectives() -> frozenset[str]:
    kinds = next(kinds.split() for name, kinds in grammar.KIND_CLASSES if name == "adjective")
    lists = (lexicon for key, lexicon in KINDS.items() if key.partition(":")[0] in kinds)
    firsts = {
        normalise(entry.parts[""]).split()[0] for lexicon in lists for entry in lexicon.options
    }
    return frozenset(firsts.union(grammar.ADJECTIVES.split()))


def _entry_classes(name: str, words: Sequence[str]) -> list[str]:
    """The class of each word of an entry (see `grammar.KIND_CLASSES`)."""
    if name == "noun":
        return _noun_phrase(words)
    if name == "adjective":
        return [name, *_noun_phrase(words[1:])]
    if name == "verb":
        return [name, *_after_verb(words[1:])]
    return [name] * len(words)


def _closed(word: str) -> str:
    found = phrase_words().get(word, ("",))[0]
    return "" if found in OPEN and found != "adverb" else found


def _noun_phrase(words: Sequence[str]) -> list[str]:
    found = [_closed(word) for word in words]
    for i, word in enumerate(words):
        if not found[i] and (
            i + 1 == len(words) or _closed(words[i + 1]) in ("preposition", "conjunction")
        ):
            found[i] = "noun"
        elif not found[i]:
            found[i] = "adjective" if word in _adjectives() else "modifier"
    return found


def _after_verb(words: Sequence[str]) -> list[str]:
    start = next((i for i, word in enumerate(words) if _closed(word) == "article"), len(words))
    return [_closed(word) or "other" for word in words[:start]] + _noun_phrase(words[start:])


def look_up(words: Sequence[str]) -> list[str]:
    """The class of each word (lower case, no marks) of running text, "" for words that the lexicon lacks.

    A word gets the first of its classes, except: the noun after an article, a determiner or an adjective (before a
    noun the adjective); the verb after a pronoun, an auxiliary, "to" or "not"; the name after mr and mrs. Forms of
    have and do are verbs before an article or determiner.
    """
    return _resolve(words, [all_words().get(word, ("",)) for word in words])


def _resolve(words: Sequence[str], options: Sequence[Classes]) -> list[str]:
    found: list[str] = []
    for i, classes in enumerate(options):
        after = options[i + 1] if i + 1 < len(options) else ("",)
        before = "" if not i else "to" if words[i - 1] in ("to", "not") else found[-1]
        wanted: Classes = ()
        if i and words[i - 1] in ("mr", "mrs"):
            wanted = ("name",)
        elif classes[0] == "auxiliary" and after[0] in ("article", "determiner"):
            wanted = ("verb",)
        elif before in ("article", "determiner", "adjective") and classes[0] != "auxiliary":
            wanted = ("adjective", "noun") if "noun" in after else ("noun", "adjective")
        elif before in ("pronoun", "auxiliary", "to") and classes[0] != "auxiliary":
            wanted = ("verb", "adjective")
        found.append(next((name for name in wanted if name in classes), classes[0]))
    return found


def told(words: Sequence[str]) -> tuple[list[str], list[bool]] | None:
    """The classes of a story's first words as the generator drew them, and whether a mark precedes each.

    The generator is run along the words (lower case, letters only); None if it cannot produce them. What it drew
    from a list has that list's class, the words of its phrases are looked up.
    """
    plain = tuple("a" if word == "an" else word for word in words)
    found = next(tellings(plain, opening=True), None) if plain else None
    if found is None:
        return None
    rows = list(_told_words(*found[1:]))[: len(plain)]
    classes = _resolve(plain, [options for options, _ in rows])
    return classes, [marked for _, marked in rows]


def _told_words(pieces: Sequence[str], origins: Sequence[str]) -> Iterator[tuple[Classes, bool]]:
    """(classes, whether a mark precedes it) of each word of a telling."""
    marked = True
    for piece, origin in zip(pieces, origins, strict=True):
        chunks = piece.split()
        words = [normalise(chunk) for chunk in chunks]
        known = iter(_entry_classes(_kinds()[origin], [w for w in words if w]) if origin else ())
        for chunk, word in zip(chunks, words, strict=True):
            parts = re.split(r"[A-Za-z']+", chunk)
            marked = marked or bool(_MARK.search(parts[0]))
            if word:
                yield ((next(known),) if origin else phrase_words().get(word, ("",))), marked
                marked = bool(_MARK.search("".join(parts[1:])))
