"""A world: a folder of text files from which stories are told with known probabilities.

`lexicon.txt` has the words, `slots.txt` the facts of a story, `plots.txt` the phrases, and
`language.txt` what is special about the language. The storybook is the world in the folder `english`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from tinylm.base.config import Problems
from tinylm.storybook.grammar import Call, Rule, Slot, Symbols, compile_rule, read_slots
from tinylm.storybook.language import OF_RULES, Kind, Sound, read_language
from tinylm.storybook.lexicon import WordList, WorldFile, read_lists
from tinylm.text.words import Splitter

STORYBOOK = Path(__file__).with_name("english")
START = "story"  # the rule that a story begins with
MOST_RULES = 10_000
FILES = ("lexicon.txt", "slots.txt", "plots.txt", "language.txt")


class World:
    """What the files of a folder say; it does not change after reading.

    lists: the words. slots: the facts. meaning: what each kind of word contains, in the order of
    tables. sounds: the words that change before others, by plain form. problems: what is wrong in
    the files; with problems, no story can be told.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.problems = Problems()
        language = read_language(self.file("language.txt"))
        self.sounds: dict[str, Sound] = language.sounds
        self.lists: dict[str, WordList] = read_lists(self.file("lexicon.txt"), language.agreement)
        self.slots: dict[str, Slot] = read_slots(self.file("slots.txt"))
        self.plots = self.file("plots.txt")
        self.symbols = Symbols(
            self.plots.path, self.plots.sections(), self.slots, self.lists, language.pronouns
        )
        self._kinds = _kinds_of_lists(language.kinds, self.lists)
        self.meaning = _meanings(language.kinds, self._kinds) | OF_RULES
        self.language = language
        self._rules: dict[str, Rule] = {}
        self._words: dict[tuple[str, str], tuple[tuple[str, str], ...]] = {}
        self._forms: dict[tuple[str, str], str] = {}
        self._split = Splitter(lower_case=True, punctuation="drop")
        self._either = {sound.either: sound for sound in self.sounds.values()}
        self._changing = _pattern_of(self.sounds)

    @property
    def name(self) -> str:
        """Its name in a report."""
        return self.folder.resolve().name

    def file(self, name: str) -> WorldFile:
        """One of FILES."""
        return WorldFile(self.folder / name, self.problems)

    def digest(self) -> str:
        """A hash of the content of the files, whatever their line ends."""
        content = hashlib.sha256()
        for name in FILES:
            path = self.folder / name
            content.update(path.read_bytes().replace(b"\r\n", b"\n") if path.exists() else b"")
            content.update(b"\0")
        return content.hexdigest()[:16]

    def rule(self, name: str) -> Rule:
        """The rule `name` or `name:a,b`. Raises InputError for one with problems."""
        if name not in self._rules:
            self._rules[name] = compile_rule(self.symbols, name)
        return self._rules[name]

    def normalise(self, text: str) -> str:
        """The words alone: lower case, without punctuation, one space between them.

        Stories are compared and scored in this form; its words are those of the tokenizer `words`
        with `lower_case: true` and `punctuation: drop`.
        """
        return " ".join(self._split(text))

    def lists_of_kind(self, kind: str) -> list[WordList]:
        """The lists whose words are of this kind."""
        names = {name for name, of_list in self._kinds.items() if of_list == kind}
        return [words for name, words in self.lists.items() if name.partition(":")[0] in names]

    def words_of(self, piece: str, origin: str) -> tuple[tuple[str, str], ...]:
        """(word, kind) of each word of a piece; words from no list are of kind "plot".

        A word that changes before others is given as `Sound.either`.
        """
        key = (piece, origin)
        if key not in self._words:
            kind = self._kinds.get(origin.partition(".")[0].partition(":")[0], "plot")
            words = []
            for word in self._split(piece):
                sound = self.sounds.get(word)
                words.append((sound.either if sound else word, kind))
            self._words[key] = tuple(words)
        return self._words[key]

    def render(self, pieces: Sequence[str]) -> str:
        """Join pieces to prose: single spaces, capitals as marked, words as they sound."""
        text = re.sub(r" +", " ", "".join(pieces)).strip()
        text = re.sub(r" +(?=[.,!?;])", "", text)
        text = re.sub(r"\^(\W*)(\w)", lambda match: match[1] + _capital(match[2]), text)
        return self._changing.sub(self._as_it_sounds, text) if self.sounds else text

    def words_of_telling(self, pieces: Sequence[str], origins: Sequence[str]) -> list[str]:
        """The words of a story piece by piece, as `Truth` reads them; `render` must write the same."""
        words = []
        for piece, origin in zip(pieces, origins, strict=True):
            words += [word for word, _ in self.words_of(piece, origin)]
        for index, word in enumerate(words):
            if sound := self._either.get(word):
                words[index] = sound.form("".join(words[index + 1 : index + 2]))
        return words

    def _as_it_sounds(self, match: re.Match[str]) -> str:
        written, following = match.groups()
        key = (written, following)
        if key not in self._forms:
            sound = self.sounds[written.lower()]
            words = self._split(following)
            form = sound.form(words[0]) if words else sound.plain
            is_capital = written[0] != sound.plain[0]
            self._forms[key] = _capital(form[0]) + form[1:] if is_capital else form
        return self._forms[key]

    def vocabulary(self) -> frozenset[str]:
        """Every word that a story can contain, in the form of `normalise`."""
        texts = [sound.changed for sound in self.sounds.values()]
        for rule in self.reachable().values():
            for phrase in rule.phrases.options:
                texts += [op for op in phrase if isinstance(op, str)]
        for words in self.lists.values():
            for entry in words.options:
                texts += entry.values()
        return frozenset(self.normalise(" ".join(texts)).split())

    def reachable(self, problems: Problems | None = None) -> dict[str, Rule]:
        """Every rule that a story can reach, under its name with arguments.

        problems: takes what is wrong in a rule, which is then left out; otherwise raises InputError.
        """
        found: dict[str, Rule] = {}
        problems = problems or Problems()
        if START not in self.symbols.rules:
            problems.add(f"{self.plots.path}: expected the rule {START}:, got none")
        waiting = [START] if START in self.symbols.rules else []
        while waiting and len(found) < MOST_RULES:
            name = waiting.pop()
            if name in found:
                continue
            with problems.collected():
                found[name] = self.rule(name)
                for phrase in found[name].phrases.options:
                    waiting += [op.rule for op in phrase if isinstance(op, Call)]
        if waiting and len(found) == MOST_RULES:
            problems.add(
                f"{self.plots.path}: expected at most {MOST_RULES:,} rules with their arguments, "
                f"got more, such as <{waiting[0][:40]}>"
            )
        return found


def _kinds_of_lists(kinds: Mapping[str, Kind], lists: Iterable[str]) -> dict[str, str]:
    """The kind of each list; `food:meat` and other lists of `food` are one, by the name before the colon."""
    if not kinds:
        return {name: name for name in dict.fromkeys(name.partition(":")[0] for name in lists)}
    return {name: kind for kind, found in kinds.items() for name in found.lists}


def _meanings(kinds: Mapping[str, Kind], lists: Iterable[str]) -> dict[str, str]:
    """What each kind contains."""
    if kinds:
        return {kind: found.meaning for kind, found in kinds.items()}
    return {name: f"words of the list {name}" for name in lists}


def _pattern_of(sounds: Iterable[str]) -> re.Pattern[str]:
    """Finds the words that change, and what follows each up to the next space."""
    inside = r"[\w'\u2019-]"
    words = "|".join(map(re.escape, sounds))
    following = r"[^\w\s]*\s(?:[^\w\s]+\s)*(\S+)"
    return re.compile(rf"(?<!{inside})({words})(?={following})", re.IGNORECASE)


@cache
def storybook() -> World:
    """The default world. Its files are checked by tests, not at every start."""
    return World(STORYBOOK)


def _capital(letter: str) -> str:
    """The capital of a letter, or the letter itself if its capital is not read as the letter."""
    capital = letter.upper()
    return capital if capital.lower() == letter.lower() else letter
