"""The default corpus: stories for small children, each with the exact log-probability of its words.

A story is told phrase by phrase and stops at every choice. `plots.txt` has the phrases:

- `{slot}` or `{slot.part}` mentions a fact of the story's world, and settles it when first told;
- `{*kind}` is a word without consequence;
- `<rule>` or `<rule:a,b>` tells one of the rule's phrases, with slots a and b for $1 and $2;
- `(a=b)` changes a fact; `^` makes the next letter a capital;
- a line is `weight| [guard] phrase`, where guards `[a]`, `[!a]`, `[a=b]` and `[!a=b]` test facts.

Each branch must change the text early: no two tellings may give the same words.
"""

from __future__ import annotations

import random
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from tinylm.storybook.lexicon import (
    KINDS,
    PRONOUN_PARTS,
    SLOTS,
    Entry,
    Indices,
    Weighted,
    read_sections,
)

RULES = read_sections("plots.txt")
VOWEL_SOUND = re.compile(
    r"\b([Aa]) (?=(?!uni|use|usu|ukul|one|eu)[aeiou]|ho(?:nest|ur))", re.IGNORECASE
)
_DROPPED = re.compile(r"[^a-z ]+")
_RULE_LINE = re.compile(r"(?:(\d+)\|)?\s*((?:\[[^]]*\]\s*)*)(.*)")
_PHRASE_PART = re.compile(r"([^{<(]+)|\{([^}]*)\}|<([^>]*)>|\(([^)]*)\)")


class Mention(NamedTuple):  # {slot.part}
    slot: str
    part: str
    origin: str


class Passing(NamedTuple):  # {*kind.part}
    kind: str
    part: str


class Call(NamedTuple):  # <rule>
    rule: str


class Assign(NamedTuple):  # (target=source)
    target: str
    source: str


Op = str | Mention | Passing | Call | Assign  # a str is plain text


class Rule(NamedTuple):
    phrases: Weighted  # options are op tuples, last op first
    guards: list[list[str]]  # of each phrase; empty where no phrase of the rule has a guard


class Choice(NamedTuple):
    """A point where the telling may continue in several ways."""

    weighted: Weighted
    banned: Indices
    slot: str  # the slot that the choice settles; "" for a phrase or a word without consequence
    kind: str  # of an entry; "" for a phrase
    part: str = ""  # of a word without consequence

    @property
    def weight_left(self) -> int:
        """The total weight of the options that are not banned."""
        weights = self.weighted.weights
        return self.weighted.total - sum(weights[index] for index in self.banned)


@cache
def compile_rule(name: str) -> Rule:
    """The rule `name` or `name:a,b`, with its arguments inserted."""
    base, _, arguments = name.partition(":")
    phrases = []
    weights = []
    guards = []
    for line in RULES[base]:
        for number, argument in enumerate(arguments.split(","), start=1):
            line = line.replace(f"${number}", argument)
        match = _RULE_LINE.fullmatch(line)
        assert match, line
        weights.append(int(match[1] or 1))
        guards.append(re.findall(r"\[([^]]*)\]", match[2]))
        phrases.append(tuple(reversed(_compile_phrase(match[3]))))
    if not any(guards):
        guards = []
    return Rule(Weighted(phrases, weights), guards)


def _compile_phrase(text: str) -> list[Op]:
    ops: list[Op] = []
    for literal, slot, rule, assign in _PHRASE_PART.findall(text):
        if literal:
            ops.append(literal)
        elif rule:
            ops.append(Call(rule))
        elif assign:
            ops.append(Assign(*assign.split("=")))
        else:
            ops.append(_compile_slot(slot))
    return ops


def _compile_slot(text: str) -> Op:
    name, _, part = text.partition(".")
    if name.startswith("*"):
        return Passing(name[1:], part)
    if name in PRONOUN_PARTS:
        return Mention("hero", name, origin("child", name))
    kind = SLOTS[name].partition(" by ")[0]
    return Mention(name, part, origin(kind, part))


def origin(kind: str, part: str) -> str:
    """Where a piece is from: "kind" for an entry's own word, "kind.part" for what goes with it."""
    return f"{kind}.{part}" if part else kind


class Telling:
    """A partly told story.

    todo: what to do, last first. facts: the entry of each slot (hero, thing, place, holder) that is
    settled. used: indices of entries of each kind that a slot has, which no other slot can have.
    pieces, origins: what was told so far, and where each piece is from.
    """

    def __init__(
        self,
        todo: list[Op],
        facts: dict[str, Entry] | None = None,
        used: dict[str, Indices] | None = None,
    ):
        self.todo = todo
        self.facts = facts or {}
        self.used = used or {}
        self.pieces: list[str] = []
        self.origins: list[str] = []

    def fork(self) -> Telling:
        """An independent copy; its pieces start empty."""
        return Telling(self.todo.copy(), self.facts.copy(), self.used.copy())

    def advance(self) -> Choice | None:
        """Continue to the next choice; None at the end of the story."""
        facts = self.facts
        while self.todo:
            op = self.todo.pop()
            if isinstance(op, str):
                self._tell(op, "")
            elif isinstance(op, Mention):
                entry = facts.get(op.slot)
                if entry is None:
                    self.todo.append(op)
                    return self._choice_of_entry(op.slot)
                self._tell(entry[op.part], op.origin)
            elif isinstance(op, Call):
                rule = compile_rule(op.rule)
                if rule.guards or len(rule.phrases.options) > 1:
                    return Choice(self._open_phrases(rule), (), "", "")
                self.todo.extend(rule.phrases.options[0])
            elif isinstance(op, Passing):
                return Choice(KINDS[op.kind], (), "", op.kind, op.part)
            else:
                facts[op.target] = facts[op.source]
        return None

    def _tell(self, piece: str, origin: str) -> None:
        self.pieces.append(piece)
        self.origins.append(origin)

    def _choice_of_entry(self, slot: str) -> Choice:
        """The choice of a slot's entry, or of the slot that must be settled before it."""
        kind, _, key = SLOTS[slot].partition(" by ")
        if key:
            master, _, part = key.partition(".")
            if master not in self.facts:
                return self._choice_of_entry(master)
            kind = f"{kind}:{self.facts[master][part]}"
        return Choice(KINDS[kind], self.used.get(kind, ()), slot, kind)

    def _open_phrases(self, rule: Rule) -> Weighted:
        if not rule.guards:
            return rule.phrases
        allowed = []
        for index, guards in enumerate(rule.guards):
            if all(map(self._allows, guards)):
                allowed.append(index)
        return rule.phrases.restrict(tuple(allowed))

    def _allows(self, guard: str) -> bool:
        """Whether a guard holds: `a` is settled, or equals slot b or has the word b; `!` negates."""
        left, _, right = guard.lstrip("!").partition("=")
        entry = self.facts.get(left)
        holds = entry is not None
        if entry is not None and right:
            holds = entry is self.facts.get(right) or right in entry.values()
        return holds != guard.startswith("!")

    def take(self, choice: Choice, index: int) -> None:
        """Take option `index` of the choice that `advance` returned."""
        if choice.slot:
            self.facts[choice.slot] = choice.weighted.options[index]
            self.used[choice.kind] = (*self.used.get(choice.kind, ()), index)
        elif choice.kind:
            self._tell(*self.first_piece(choice, index))
        else:
            self.todo.extend(choice.weighted.options[index])

    def first_piece(self, choice: Choice, index: int) -> tuple[str, str]:
        """(what an option tells first, its origin); ("", "") if it depends on further choices."""
        option = choice.weighted.options[index]
        if not choice.kind:
            opens_with_text = option and isinstance(option[-1], str)
            return (option[-1], "") if opens_with_text else ("", "")
        part = choice.part
        if choice.slot:
            mention = self.todo[-1]
            if not isinstance(mention, Mention) or mention.slot != choice.slot:
                return "", ""
            part = mention.part
        return option[part], origin(choice.kind, part)


def render(pieces: list[str]) -> str:
    """Join pieces to prose: single spaces, capitals as marked, `an` before a vowel's sound."""
    text = re.sub(r" +", " ", "".join(pieces)).strip()
    text = re.sub(r" +(?=[.,!?;])", "", text)
    text = re.sub(r"\^(\W*)(\w)", lambda match: match[1] + match[2].upper(), text)
    return VOWEL_SOUND.sub(r"\1n ", text)


def normalise(text: str) -> str:
    """Lower case, letters and spaces only: the form in which stories are compared and scored."""
    return _DROPPED.sub("", text.lower())


class Sampler:
    """Draws options by integer arithmetic, so the same on every machine; sums their log-probabilities."""

    def __init__(self, seed: str):
        self._bits = random.Random(seed).getrandbits
        self.log_prob = 0.0

    def pick(self, weighted: Weighted, banned: Indices = ()) -> int:
        """Draw an option's index; a banned one is rejected, so the others keep their proportions."""
        while True:
            index = bisect_right(weighted.cumulative, self._bits(64) * weighted.total >> 64)
            if index not in banned:
                self.log_prob += weighted.log_prob(index, banned)
                return index


def sample_telling(sampler: Sampler, start: str = "story") -> Telling:
    """One whole telling of the rule `start`, drawn by the sampler."""
    telling = Telling([Call(start)])
    while choice := telling.advance():
        telling.take(choice, sampler.pick(choice.weighted, choice.banned))
    return telling


@dataclass(frozen=True)
class Story:
    """text: plain ASCII prose in one paragraph; log_prob: ln P(text) in nats, to 6 decimals."""

    text: str
    log_prob: float


def sample_story(sampler: Sampler) -> Story:
    """One story, drawn by the sampler."""
    sampler.log_prob = 0.0
    text = render(sample_telling(sampler).pieces)
    return Story(text, round(sampler.log_prob, 6))


def generate(train: int, evaluation: int, seed: int) -> tuple[Iterator[Story], Iterator[Story]]:
    """(train stories, evaluation stories): all different, none in both, the same for the same seed.

    Evaluation is drawn at once, train while it is read. A story that is drawn twice is dropped.
    """
    seen: set[str] = set()
    for_evaluation = list(_different(evaluation, f"storybook evaluation {seed}", seen))
    return _different(train, f"storybook train {seed}", seen), iter(for_evaluation)


def _different(count: int, seed: str, seen: set[str]) -> Iterator[Story]:
    sampler = Sampler(seed)
    while count > 0:
        story = sample_story(sampler)
        key = normalise(story.text)
        if key not in seen:
            seen.add(key)
            count -= 1
            yield story
