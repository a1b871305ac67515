"""The rules of a world: how a line of plots.txt is read.

A story is told phrase by phrase, with a random choice wherever it can go on in several ways. `plots.txt` has the phrases:

- `{slot}` or `{slot.part}` mentions a fact of the story, which is chosen at its first mention;
- `{*list}` or `{*list.part}` is a passing word: drawn anew each time, it settles no fact;
- `<rule>` or `<rule:a,b>` tells one of the rule's phrases, with a and b for $1 and $2;
- `(a=b)` changes a fact; `^` makes the next letter a capital;
- a line is `weight| [guard] phrase`, where guards `[a]`, `[!a]`, `[a=b]` and `[!a=b]` test facts.

No two tellings may have the same words. The sooner two phrases differ, the less `Truth` computes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tinylm.base.config import Problems
from tinylm.storybook.lexicon import (
    Indices,
    Line,
    Section,
    Weighted,
    WordList,
    WorldFile,
    place,
    refuse,
)

MOST_DIGITS = 10  # of a weight; the sampler draws 64 bits
_RULE_LINE = re.compile(r"(?:(\d+)\|)?\s*((?:\[[^]]*\]\s*)*)(.*)")
_PHRASE_PART = re.compile(r"([^{<(]+)|\{([^}]*)\}|<([^>]*)>|\(([^)]*)\)")
_STRAY = re.compile(r"[]}>)[|]")
_GUARD = re.compile(r"!?([^!=]+)(?:=(.+))?")
_ASSIGNMENT = re.compile(r"([^=]+)=([^=]+)")


class Mention(NamedTuple):  # {slot.part}
    slot: str
    part: str
    origin: str


class Passing(NamedTuple):  # {*list.part}
    kind: str
    part: str


class Call(NamedTuple):  # <rule>
    rule: str


class Assign(NamedTuple):  # (target=source)
    target: str
    source: str


Op = str | Mention | Passing | Call | Assign  # a str is plain text


class Rule(NamedTuple):
    """The phrases of a rule, with its arguments inserted."""

    name: str
    phrases: Weighted  # options are op tuples, last op first
    guards: list[list[str]]  # of each phrase; empty where no phrase of the rule has a guard
    lines: Indices  # number of each phrase's line


class Slot(NamedTuple):
    """A fact of a story: an entry of a list.

    kind: the list. master, part: set if the list is `kind:value`, where the value is this part of
    the entry of the slot `master`; otherwise "". line: its number.
    """

    kind: str
    master: str
    part: str
    line: int


class Symbols(NamedTuple):
    """What the lines of plots.txt may name. path: of this file. pronouns: {part: (slot, line)}."""

    path: Path
    rules: Mapping[str, Section]
    slots: Mapping[str, Slot]
    lists: Mapping[str, WordList]
    pronouns: Mapping[str, tuple[str, int]]

    def lists_of(self, name: str) -> list[tuple[str, WordList]]:
        """The lists that a slot's entry can be from, by name."""
        slot = self.slots[name]
        if not slot.master:
            return [(slot.kind, self.lists[slot.kind])] if slot.kind in self.lists else []
        names = dict.fromkeys(f"{slot.kind}:{value}" for value in self.values_of(slot))
        return [(name, self.lists[name]) for name in names if name in self.lists]

    def values_of(self, slot: Slot) -> Iterator[str]:
        """The values of the part that decides the list of a slot with a master."""
        for _, words in self.lists_of(slot.master):
            if slot.part in ("", *words.parts):
                yield from (entry[slot.part] for entry in words.options)


def read_slots(file: WorldFile) -> dict[str, Slot]:
    """The slots of slots.txt: lines `slot slot: list` or `slot: list by slot.part`."""
    slots: dict[str, Slot] = {}
    for line in file.lines():
        names, colon, rest = line.text.partition(":")
        kind, by, key = rest.strip().partition(" by ")
        master, dot, part = key.partition(".")
        if not colon or not kind or " " in kind or bool(by) != bool(dot):
            expected = "'slot: list' or 'slot: list by slot.part'"
            file.report(line.number, f"expected {expected}, got {line.text!r}")
            continue
        for name in names.split():
            if name in slots:
                file.report(line.number, f"expected a new slot, got {name!r} again")
            slots[name] = Slot(kind, master, part, line.number)
    return slots


def origin(kind: str, part: str) -> str:
    """Where a piece is from: "kind" for an entry's own word, "kind.part" for what goes with it."""
    return f"{kind}.{part}" if part else kind


def compile_rule(symbols: Symbols, name: str) -> Rule:
    """The rule `name` or `name:a,b`. Raises InputError with a line for each problem."""
    base, _, arguments = name.partition(":")
    problems = Problems()
    phrases = []
    weights = []
    guards = []
    lines = symbols.rules[base].lines
    for line in lines:
        text = line.text
        for number, argument in enumerate(arguments.split(","), start=1):
            text = text.replace(f"${number}", argument)
        compiler = _Compiler(symbols, Line(text, line.number))
        with problems.collected():
            weight, tests, phrase = compiler.read_line()
            weights.append(weight)
            guards.append(tests)
            phrases.append(tuple(reversed(phrase)))
    problems.refuse()
    if not lines:
        raise refuse(
            symbols.path, symbols.rules[base].number, f"expected phrases below {base}:, got none"
        )
    if not any(guards):
        guards = []
    return Rule(name, Weighted(phrases, weights), guards, tuple(line.number for line in lines))


class _Compiler:
    """Reads one line; collects what is wrong in it."""

    def __init__(self, symbols: Symbols, line: Line) -> None:
        self.symbols = symbols
        self.line = line
        self.problems = Problems()

    def expect(self, holds: bool, expected: str, got: str) -> None:
        if not holds:
            where = place(self.symbols.path, self.line.number)
            self.problems.add(f"{where}expected {expected}, got {got}")

    def read_line(self) -> tuple[int, list[str], list[Op]]:
        """(weight, guards, ops). Raises InputError."""
        match = _RULE_LINE.fullmatch(self.line.text)
        assert match, self.line
        digits = match[1] or "1"
        weight = int(digits[:MOST_DIGITS])
        self.expect(weight > 0, "a weight of at least 1", digits[:20])
        self.expect(
            len(digits) <= MOST_DIGITS,
            f"a weight of at most {MOST_DIGITS} digits",
            f"{len(digits)}",
        )
        guards = re.findall(r"\[([^]]*)\]", match[2])
        for guard in guards:
            self.check_guard(guard)
        phrase = list(self.ops(match[3]))
        self.problems.refuse()
        return weight, guards, phrase

    def ops(self, text: str) -> Iterator[Op]:
        read = 0
        for match in _PHRASE_PART.finditer(text):
            self.expect(match.start() == read, "a closed bracket", repr(text[read : read + 20]))
            read = match.end()
            literal, slot, rule, assignment = match.groups()
            if literal:
                stray = _STRAY.search(literal)
                expected = "a whole number before |" if "|" in literal else "pairs of brackets"
                self.expect(not stray, expected, repr(self.line.text[:60]))
                yield literal
            elif rule is not None:
                self.expect(
                    rule.partition(":")[0] in self.symbols.rules, "a rule of plots.txt", f"<{rule}>"
                )
                yield Call(rule)
            elif assignment is not None:
                yield self.assign(assignment)
            else:
                yield self.mention(slot)
        self.expect(read == len(text), "a closed bracket", repr(text[read : read + 20]))

    def assign(self, text: str) -> Op:
        match = _ASSIGNMENT.fullmatch(text)
        slots = self.symbols.slots
        if match is None or match[1] not in slots or match[2] not in slots:
            self.expect(False, "(slot=slot) with slots of slots.txt", f"({text})")
            return ""
        return Assign(match[1], match[2])

    def mention(self, text: str) -> Op:
        """`*list.part`, a pronoun, or `slot.part`."""
        name, _, part = text.partition(".")
        shown = f"{{{text}}}"
        if name.startswith("*"):
            words = self.symbols.lists.get(name[1:])
            self.expect(words is not None, "a list of lexicon.txt", shown)
            if words:
                self.check_part(part, words, shown)
            return Passing(name[1:], part)
        if name in self.symbols.pronouns:
            name, part = self.symbols.pronouns[name][0], name
        slot = self.symbols.slots.get(name)
        if slot is None:
            self.expect(False, "a slot of slots.txt or a pronoun", shown)
            return ""
        for _, words in self.symbols.lists_of(name):
            self.check_part(part, words, shown)
        return Mention(name, part, origin(slot.kind, part))

    def check_part(self, part: str, words: WordList, shown: str) -> None:
        expected = f"a part of the list in line {words.number} of lexicon.txt"
        self.expect(part in ("", *words.parts), expected, shown)

    def check_guard(self, text: str) -> None:
        match = _GUARD.fullmatch(text)
        if match is None or match[1] not in self.symbols.slots:
            self.expect(False, "a guard [slot], [!slot] or [slot=value]", f"[{text}]")
            return
        value = match[2]
        words: set[str] = set()
        for _, listed in self.symbols.lists_of(match[1]):
            for entry in listed.options:
                words |= set(entry.values())
        known = value is None or value in self.symbols.slots or value in words
        self.expect(known, f"a slot, or a word or part of {match[1]}", f"[{text}]")


def ops_of(rules: Iterable[Rule]) -> Iterator[Op]:
    """The ops of all phrases of the rules."""
    for rule in rules:
        for phrase in rule.phrases.options:
            yield from phrase


def shown(op: Op) -> str:
    """An op as plots.txt has it, for messages."""
    if isinstance(op, str):
        return repr(op[:20])
    if isinstance(op, Call):
        return f"<{op.rule}>"
    if isinstance(op, Assign):
        return f"({op.target}={op.source})"
    name = op.slot if isinstance(op, Mention) else f"*{op.kind}"
    return f"{{{name}.{op.part}}}" if op.part else f"{{{name}}}"
