"""The storybook's words: kinds of entries with parts and weights, and the kind of each slot.

`lexicon.txt` has a list for each kind. Its first line names the kind and the parts of its entries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

Indices = tuple[int, ...]
# "" is its word; other parts go with it (pronouns, past tense, food)
Entry = dict[str, str]
PRONOUN_PARTS = ("he", "him", "his", "himself", "kind")
PRONOUNS = {
    "he": ("he", "him", "his", "himself", "boy"),
    "she": ("she", "her", "her", "herself", "girl"),
}


def _lines_of(name: str) -> list[str]:
    return Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()


def read_sections(name: str) -> dict[str, list[str]]:
    """The sections of a text file of this folder: `name:`, then lines; indented ones continue."""
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in _lines_of(name):
        if line.endswith(":") and " " not in line:
            lines = []
            sections[line[:-1]] = lines
        elif line.startswith("  "):
            lines[-1] += " " + line.strip()
        elif line:
            lines.append(line)
    return sections


class Weighted:
    """A finite distribution: option i has probability weights[i] / total, all integers."""

    def __init__(self, options: Sequence[Any], weights: Sequence[int]):
        self.options = tuple(options)
        self.weights = tuple(weights)
        self.cumulative = tuple(accumulate(weights))
        self.total = self.cumulative[-1]
        self._restricted: dict[Indices, Weighted] = {}

    def restrict(self, allowed: Indices) -> Weighted:
        """The distribution given that the option is one of the indices in `allowed`."""
        if allowed not in self._restricted:
            options = [self.options[i] for i in allowed]
            weights = [self.weights[i] for i in allowed]
            self._restricted[allowed] = Weighted(options, weights)
        return self._restricted[allowed]

    def log_prob(self, index: int, banned: Indices = ()) -> float:
        """ln P(option `index`, given that no option of `banned` is drawn)."""
        left = self.total
        for each in banned:
            left -= self.weights[each]
        return math.log(self.weights[index] / left)


def _entry(text: str, names: Sequence[str]) -> Entry:
    entry = dict(zip(names, text.strip().split("/"), strict=True))
    if "he" in entry:
        entry |= zip(PRONOUN_PARTS, PRONOUNS[entry["he"]], strict=True)
    return entry


def _read_kinds() -> dict[str, Weighted]:
    """The list of each kind. Weights fall slowly with the rank: first words are frequent."""
    kinds = {}
    for header, lines in read_sections("lexicon.txt").items():
        kind, *parts = header.split("/")
        entries = []
        weights = []
        for rank, text in enumerate(" ".join(lines).split(",")):
            entries.append(_entry(text, ["", *parts]))
            weights.append(60_000 // (rank + 60))
        kinds[kind] = Weighted(entries, weights)
    return kinds


KINDS: dict[str, Weighted] = _read_kinds()
# slot -> kind, or "kind by slot.part": the list `kind:value`, where value is that part of the entry
# that another slot has
SLOTS: dict[str, str] = {}
for _line in _lines_of("slots.txt"):
    _slots, _, _kind = _line.partition(": ")
    SLOTS |= dict.fromkeys(_slots.split(), _kind)
