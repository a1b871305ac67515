"""Minimal pairs: two sentences that differ in one point of grammar or meaning.

The classes of phenomena follow BLiMP (Warstadt et al. 2020) and Zorro (Huebner et al. 2021).
Templates and words were written for this project (phenomena.yaml, and the storybook's lexicon).
Most pairs come in twos that are crossed: the word that is right in one is wrong in the other ("the
dog was", "the dogs were"). So word frequency alone gets one of the two right. In the other pairs,
word frequency cannot tell the sentences apart: both have the same words, in another order.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import yaml

from tinylm.storybook.lexicon import KINDS

_T = TypeVar("_T")
Entry = dict[str, str]  # of the lexicon: the word under "", and other parts by name
Template = Mapping[str, Any]  # of phenomena.yaml, which explains its form
_DATA: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
WORDS: dict[str, str] = _DATA["words"]
PHENOMENA: dict[str, Template] = _DATA["phenomena"]


class Pair(NamedTuple):
    """Two texts with the same beginning, of which only `right` is right."""

    right: str
    wrong: str


class NothingToDraw(Exception):
    """The vocabulary has too few words for a template."""


class Draw:
    """Draws words that a vocabulary has. has: whether the vocabulary has a word."""

    def __init__(self, has: Callable[[str], bool], rng: np.random.Generator):
        self._has = has
        self._rng = rng

    def one(self, options: Sequence[_T]) -> _T:
        if not options:
            raise NothingToDraw
        return options[self._rng.permutation(len(options))[0]]

    def forms(self, words: str) -> list[str]:
        """The forms of one word of a list, such as dog/dogs; the vocabulary has all of them."""
        rows = [word.split("/") for word in words.split()]
        return self.one([row for row in rows if all(map(self._has, row))])

    def entry(self, kind: str, gender: str, others: Sequence[Entry]) -> Entry:
        """An entry of this kind of the lexicon, other than `others`.

        gender: "boy" or "girl" for a child, "" for either and for all other kinds.
        """
        entries = []
        for entry in KINDS[kind].options:
            if self._has(entry[""]) and entry not in others and gender in ("", entry.get("kind")):
                entries.append(entry)
        return self.one(entries)


def _opening(child: Entry) -> str:
    """A story's first sentence. Pairs begin like a story, since models have read only stories."""
    return f"Once upon a time there was a {child['kind']} named {child['']}."


def draw_pairs(template: Template, draw: Draw) -> list[Pair]:
    """Two crossed pairs, or one of the same words in two orders."""
    values: dict[str, str] = {}
    entries: list[Entry] = []
    for name, source in template["draw"].items():
        if isinstance(source, list):
            values[name] = draw.one(source).format_map(values)
            continue
        kind, _, argument = source.format_map(values).partition(" ")
        if kind == "word":
            forms = draw.forms(WORDS.get(argument, argument))
            values.update(zip(name.split("/"), forms, strict=True))
        else:
            entry = draw.entry(kind, argument, entries)
            entries.append(entry)
            values |= {f"{name}_{part}": text for part, text in entry.items()}
            values[name] = entry[""]
            if kind == "child":
                values[f"{name}_opens"] = _opening(entry)
    texts = [text.format_map(values) for text in template["texts"]]
    if "fits" not in template:
        right, wrong = texts
        return [Pair(right, wrong)]
    one, other = texts
    fits_one, fits_other = (word.format_map(values) for word in template["fits"])
    first = Pair(one.replace("_", fits_one), one.replace("_", fits_other))
    second = Pair(other.replace("_", fits_other), other.replace("_", fits_one))
    return [first, second]
