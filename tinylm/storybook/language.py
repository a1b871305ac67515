"""What belongs to the language of a world: agreement, pronouns, words that change, kinds of words.

`language.txt` may have these sections:

- `agreement/KEY/part/part:` is a table. An entry whose part KEY has the value of a row gets the
  parts of that row: `she/her/her/herself/girl`.
- `pronouns:` has lines `slot: part part`; then `{part}` means `{slot.part}`.
- `sounds:` has lines `word changed pattern`: the word is written `changed` before a word that the
  regular expression matches, as "a" is written "an" before a vowel's sound.
- `kinds:` has lines `kind (what it contains): list list`. Measurements are reported by kind. Without
  this section each list is a kind.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tinylm.storybook.lexicon import (
    Agreement,
    Entry,
    Line,
    Section,
    WorldFile,
    check_parts,
    entries_of,
    read_entry,
)
from tinylm.text.words import Splitter

END = "<eos>"  # the word after a story's last one
OF_RULES = {  # kinds of words that are in no list, and what they are
    "plot": "words of the plot, where another could follow",
    "fixed": "words of the plot, where no other could follow",
    "end": "the end of the story",
}
_KIND = re.compile(r"(\w+) \((.*)\): (.+)")
_split = Splitter(lower_case=True, punctuation="drop")
_OPTIONAL = ("pronouns", "sounds", "kinds")


class Sound(NamedTuple):
    """A word that is written `changed` before the words that the pattern matches, otherwise `plain`."""

    plain: str
    changed: str
    pattern: re.Pattern[str]

    @property
    def either(self) -> str:
        """Stands for both forms, in derivations: the word after it decides which."""
        return f"{self.plain}/{self.changed}"

    def form(self, following: str) -> str:
        """The form before a word; "" is the end of the text."""
        plain = following.partition("/")[0]  # of another word that has two forms
        is_changed = plain not in ("", END) and self.pattern.match(plain)
        return self.changed if is_changed else self.plain


class Kind(NamedTuple):
    """A kind of word. meaning: what it contains. lists: their names. line: its number."""

    meaning: str
    lists: tuple[str, ...]
    line: int


class Language(NamedTuple):
    """language.txt. pronouns: {part: (slot, number of the line)}. sounds: by plain word."""

    agreement: Agreement
    pronouns: dict[str, tuple[str, int]]
    sounds: dict[str, Sound]
    kinds: dict[str, Kind]


def read_language(file: WorldFile) -> Language:
    """Read language.txt, which may be missing; then the language needs none of this."""
    if not file.path.exists():
        return Language({}, {}, {}, {})
    sections = file.sections()
    agreement: dict[str, dict[str, Entry]] = {}
    for header, section in sections.items():
        name, *parts = header.split("/")
        if name == "agreement" and len(parts) > 1:
            if parts[0] in agreement:
                file.report(section.number, f"expected one table for {parts[0]!r}, got two")
            check_parts(file, section.number, parts)
            agreement[parts[0]] = _table(file, section, parts)
        elif header not in _OPTIONAL:
            expected = f"agreement/KEY/PART: or {': or '.join(_OPTIONAL)}:"
            file.report(section.number, f"expected {expected}, got {header}:")
    lines = [sections.get(name, Section(0, [])).lines for name in _OPTIONAL]
    return Language(
        agreement, _pronouns(file, lines[0]), _sounds(file, lines[1]), _kinds(file, lines[2])
    )


def _table(file: WorldFile, section: Section, parts: list[str]) -> dict[str, Entry]:
    """A table of agreement: the parts of each value of the first part."""
    rows: dict[str, Entry] = {}
    for line in entries_of(section):
        entry = read_entry(file, line, parts)
        if entry is not None:
            if entry[parts[0]] in rows:
                file.report(line.number, f"expected one row for {entry[parts[0]]!r}, got two")
            rows[entry[parts[0]]] = entry
    if not rows:
        file.report(section.number, f"expected rows such as {'/'.join(parts)}, got none")
    return rows


def _pronouns(file: WorldFile, lines: list[Line]) -> dict[str, tuple[str, int]]:
    pronouns: dict[str, tuple[str, int]] = {}
    for line in lines:
        slot, colon, parts = line.text.partition(": ")
        if not colon:
            file.report(line.number, f"expected 'slot: part part', got {line.text!r}")
        for part in parts.split():
            if part in pronouns:
                file.report(line.number, f"expected one slot for {{{part}}}, got a second one")
            pronouns[part] = (slot, line.number)
    return pronouns


def _sounds(file: WorldFile, lines: list[Line]) -> dict[str, Sound]:
    sounds: dict[str, Sound] = {}
    for line in lines:
        words = line.text.split()
        if len(words) != 3:
            file.report(line.number, f"expected 'word changed pattern', got {line.text!r}")
            continue
        plain, changed, pattern = words[0].lower(), words[1].lower(), words[2]
        if [plain, changed] != _split(f"{plain} {changed}"):
            file.report(line.number, f"expected words without punctuation, got {line.text!r}")
        taken = {form for sound in sounds.values() for form in (sound.plain, sound.changed)}
        if plain in taken or changed in sounds:
            file.report(line.number, f"expected words that no other line has, got {line.text!r}")
        try:
            sounds[plain] = Sound(plain, changed, re.compile(pattern, re.IGNORECASE))
        except re.error as error:
            file.report(line.number, f"expected a regular expression, got {pattern!r}: {error}")
    return sounds


def _kinds(file: WorldFile, lines: list[Line]) -> dict[str, Kind]:
    kinds: dict[str, Kind] = {}
    listed: set[str] = set()
    for line in lines:
        match = _KIND.fullmatch(line.text.strip())
        if not match:
            file.report(line.number, f"expected 'kind (meaning): list list', got {line.text!r}")
            continue
        lists = tuple(match[3].split())
        for name in sorted(listed & set(lists)):
            file.report(line.number, f"expected each list in one kind, got {name!r} again")
        listed |= set(lists)
        if match[1] in kinds or match[1] in OF_RULES:
            file.report(line.number, f"expected a new kind, got {match[1]!r} again")
        kinds[match[1]] = Kind(match[2], lists, line.number)
    return kinds
