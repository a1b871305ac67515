"""The storybook's words: kinds of entries with parts and weights, and the kind of each slot.

`lexicon.txt` has a list for each kind. Its first line names the kind and the parts of its entries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

PRONOUNS = {
    "he": {"he": "he", "him": "him", "his": "his", "himself": "himself", "kind": "boy"},
    "she": {"he": "she", "him": "her", "his": "her", "himself": "herself", "kind": "girl"},
}


def read_sections(name: str) -> dict[str, list[str]]:
    """The sections of a text file beside this one: `name:`, then lines; an indented line continues.

    Raises ValueError if a section is there twice.
    """
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines():
        if line.endswith(":") and " " not in line:
            if line[:-1] in sections:
                raise ValueError(f"{name}: section {line} is there twice")
            lines = sections[line[:-1]] = []
        elif line.startswith("  "):
            lines[-1] += " " + line.strip()
        elif line:
            lines.append(line)
    return sections


class Weighted:
    """A finite distribution: option i has probability weights[i] / total, all integers."""

    __slots__ = ("_restricted", "cumulative", "logs", "options", "total", "weights")

    def __init__(self, options: Sequence[Any], weights: Sequence[int]):
        if not options or len(options) != len(weights) or min(weights) < 1:
            raise ValueError(f"{len(options)} options need as many positive integers: {weights!r}")
        self.options = tuple(options)
        self.weights = tuple(weights)
        self.cumulative = tuple(accumulate(weights))
        self.total = self.cumulative[-1]
        self.logs = tuple(math.log(weight / self.total) for weight in weights)
        self._restricted: dict[tuple[int, ...], Weighted] = {}

    def restrict(self, allowed: tuple[int, ...]) -> Weighted:
        """The distribution given that the option is one of the indices in `allowed`."""
        if len(allowed) == len(self.options):
            return self
        if allowed not in self._restricted:
            options = [self.options[i] for i in allowed]
            weights = [self.weights[i] for i in allowed]
            self._restricted[allowed] = Weighted(options, weights)
        return self._restricted[allowed]

    def log_prob(self, index: int, banned: tuple[int, ...] = ()) -> float:
        """ln P(option `index`, given that no option of `banned` is drawn)."""
        if not banned:
            return self.logs[index]
        left = self.total - sum(self.weights[i] for i in banned)
        return math.log(self.weights[index] / left)


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One entry; parts[""] is its word, other parts go with it (pronouns, past tense, food)."""

    parts: dict[str, str]


def _entry(text: str, names: Sequence[str]) -> Entry:
    values = text.strip().split("/")
    parts = dict(zip(names, values, strict=True))
    if "he" in parts:
        parts |= PRONOUNS[parts["he"]]
    return Entry(parts)


def _read_kinds() -> dict[str, Weighted]:
    """The list of each kind. Weights fall slowly with the rank: first words are frequent."""
    kinds = {}
    for header, lines in read_sections("lexicon.txt").items():
        kind, *parts = header.split("/")
        entries = [_entry(text, ["", *parts]) for text in " ".join(lines).split(",")]
        words = {entry.parts[""] for entry in entries}
        if len(words) < len(entries):
            raise ValueError(f"lexicon.txt: {kind} has a word twice")
        weights = [60_000 // (rank + 60) for rank in range(len(entries))]
        kinds[kind] = Weighted(entries, weights)
    return kinds


def read_pairs(name: str) -> list[tuple[str, str]]:
    """The lines `left: right` of a text file beside this one."""
    pairs = []
    for line in Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines():
        left, _, right = line.partition(":")
        pairs.append((left, right.strip()))
    return pairs


KINDS: dict[str, Weighted] = _read_kinds()
# slot -> kind, or "kind by slot.part": the list `kind:value`, where value is that part of the entry
# that another slot has
SLOTS = {slot: kind for slots, kind in read_pairs("slots.txt") for slot in slots.split()}
