"""A world's word lists: entries with their parts and weights.

`lexicon.txt` has a section for each list. Its first line names the list and the parts of its entries,
as in `kin/he/call:`; then the entries follow, separated by commas, as in `aunt/she/Auntie`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from tinylm.base.config import InputError, Problems
from tinylm.text.cleaning import unify

Indices = tuple[int, ...]
# "" is its word; other parts go with it (pronouns, past tense, food)
Entry = dict[str, str]
_LATE_COMMENT = re.compile(r"\s#")


class Line(NamedTuple):
    """A line of a file with those that continue it. number: of the first one, from 1."""

    text: str
    number: int


class Section(NamedTuple):
    """The lines below a header. number: the header's line."""

    number: int
    lines: list[Line]


class WorldFile:
    """A text file of a world. What is wrong in it is added to `problems`, with file and line."""

    def __init__(self, path: Path, problems: Problems) -> None:
        self.path = path
        self.problems = problems

    def report(self, number: int, problem: str) -> None:
        """Note a problem on a line."""
        self.problems.add(place(self.path, number) + problem)

    def lines(self) -> list[Line]:
        """The lines without blank ones and comments (`#`); an indented line continues the one before.

        Any white space indents, also that of scripts without a space between words.
        """
        try:
            text = unify(self.path.read_text(encoding="utf-8-sig"))
        except FileNotFoundError:
            self.problems.add(f"{self.path}: expected a file, got none")
            return []
        except (OSError, UnicodeDecodeError) as error:
            self.problems.add(f"{self.path}: expected a UTF-8 text file, got an error: {error}")
            return []
        lines: list[Line] = []
        for number, line in enumerate(text.splitlines(), start=1):
            if line.lstrip().startswith("#") or not line.strip():
                continue
            if _LATE_COMMENT.search(line):
                self.report(number, f"expected a comment in a line of its own, got {line[:60]!r}")
            if line[0].isspace() and lines:
                before = lines.pop()
                lines.append(Line(f"{before.text} {line.strip()}", before.number))
            else:
                lines.append(Line(line, number))
        return lines

    def sections(self) -> dict[str, Section]:
        """The sections: a header `name:` without a space, then its lines."""
        sections: dict[str, Section] = {}
        section: Section | None = None
        for line in self.lines():
            if line.text.endswith(":") and " " not in line.text:
                name = line.text[:-1]
                if name in sections:
                    self.report(line.number, f"expected a new name, got {name!r} again")
                section = sections.setdefault(name, Section(line.number, []))
            elif section is None:
                self.report(
                    line.number, f"expected a header such as 'story:', got {line.text[:40]!r}"
                )
            else:
                section.lines.append(line)
        return sections


def place(path: Path, number: int) -> str:
    """How a message begins that is about a line of a file."""
    return f"{path}, line {number}: "


def refuse(path: Path, number: int, problem: str) -> InputError:
    """The error of one line."""
    return InputError(place(path, number) + problem)


class Weighted:
    """A finite distribution: option i has probability weights[i] / total, all integers."""

    def __init__(self, options: Sequence[Any], weights: Sequence[int]):
        self.options = tuple(options)
        self.weights = tuple(weights)
        self.cumulative = tuple(accumulate(weights))
        self.total = sum(weights)
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


class WordList(Weighted):
    """The entries of one list. Weights fall slowly with the rank: first words are frequent.

    parts: what each entry has besides its word. number: the header's line. numbers: each entry's.
    """

    def __init__(self, entries: Sequence[Entry], parts: frozenset[str], lines: Indices) -> None:
        super().__init__(entries, [max(60_000 // (rank + 60), 1) for rank in range(len(entries))])
        self.parts = parts
        self.number, *self.numbers = lines


Agreement = Mapping[str, Mapping[str, Entry]]  # part -> its value -> the parts that it decides


def entries_of(section: Section) -> Iterator[Line]:
    """The texts between the commas of a section, each with the line where it begins."""
    begun = Line("", section.number)
    for line in section.lines:
        *ended, rest = line.text.split(",")
        for text in ended:
            number = begun.number if begun.text else line.number
            yield Line(f"{begun.text} {text}".strip(), number)
            begun = Line("", line.number)
        if rest.strip():
            number = begun.number if begun.text else line.number
            begun = Line(f"{begun.text} {rest}".strip(), number)
    if begun.text:
        yield begun


def read_entry(file: WorldFile, line: Line, names: Sequence[str]) -> Entry | None:
    """The parts of an entry `word/part/part`; None, and a problem, if their number is wrong."""
    values = [value.strip() for value in line.text.split("/")]
    if len(values) == len(names) and values[0]:
        return dict(zip(names, values))
    shown = "/".join(name or "WORD" for name in names)
    file.report(line.number, f"expected {shown}, got {line.text!r}")
    return None


def read_lists(file: WorldFile, agreement: Agreement) -> dict[str, WordList]:
    """The lists of lexicon.txt by name. agreement: the tables of the language."""
    lists = {}
    for header, section in file.sections().items():
        name, *parts = header.split("/")
        agreeing = [part for key in parts for part in _added_by(agreement, key)]
        if name in lists:
            file.report(section.number, f"expected a new list, got {name!r} again")
        check_parts(file, section.number, ["", *parts, *agreeing])
        entries = []
        numbers = [section.number]
        for line in entries_of(section):
            entry = read_entry(file, line, ["", *parts])
            if entry is not None:
                entries.append(entry | _agreeing(file, line, entry, agreement))
                numbers.append(line.number)
        if not entries:
            file.report(section.number, f"expected words below {header}:, got none")
        lists[name] = WordList(entries, frozenset([*parts, *agreeing]), tuple(numbers))
    return lists


def check_parts(file: WorldFile, number: int, parts: Sequence[str]) -> None:
    """Add a problem for each part that an entry would have twice. parts: "" is the word."""
    for part, count in Counter(parts).items():
        if count > 1:
            got = f"{part!r} {count} times" if part else "one without a name"
            file.report(number, f"expected each part once, also with those of a table, got {got}")


def _added_by(agreement: Agreement, key: str) -> Iterator[str]:
    """The parts that the table of a part adds to it."""
    for part in next(iter(agreement.get(key, {}).values()), {}):
        if part != key:
            yield part


def _agreeing(file: WorldFile, line: Line, entry: Entry, agreement: Agreement) -> Entry:
    """The parts that the tables of agreement add to an entry."""
    added: Entry = {}
    for key, table in agreement.items():
        value = entry.get(key)
        if value is None:
            continue
        if value in table:
            added |= table[value]
        else:
            expected = " or ".join(table)
            file.report(line.number, f"expected {key} to be {expected}, got {value!r}")
    return added
