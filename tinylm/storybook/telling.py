"""The machine that tells a story: phrases with slots and nested rules, stopped at every choice.

Grammar of a phrase: `{slot}` or `{slot.part}` mentions a fact (and settles it, when first told), `{*kind}`
is a word without consequence, `<rule>` or `<rule:a,b>` tells one of the rule's phrases, $1 and $2 replaced by slots
a, b, `(a=b)` changes a fact, `^` makes the next letter a capital. A rule's line is `weight| [guard] phrase`;
the guards `[a]`, `[!a]`, `[a=b]` and `[!a=b]` ask the world.

Every choice must show in the words, and soon: no two tellings may give the same words (see scorer.py).
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from tinylm.storybook.chooser import Sampler, Weighted
from tinylm.storybook.lexicon.kinds import KINDS, SLOTS
from tinylm.storybook.plots.book import RULES
from tinylm.storybook.world import World

HERO_PARTS = ("he", "him", "his", "himself")
VOWEL_SOUND = re.compile(
    r"\b([Aa]) (?=(?!uni|use|usu|ukul|one|eu)[aeiou]|ho(?:nest|ur))", re.IGNORECASE
)


class Mention(NamedTuple):
    slot: str
    part: str
    origin: str


class Passing(NamedTuple):
    kind: str
    part: str


class Call(NamedTuple):
    rule: str


class Assign(NamedTuple):
    target: str
    source: str


Op = str | Mention | Passing | Call | Assign
Guards = tuple[tuple[bool, str, str], ...]


class Rule(NamedTuple):
    phrases: Weighted  # options are op tuples, last op first
    guards: tuple[Guards, ...]  # empty where no phrase of the rule has a guard


class Choice(NamedTuple):
    """A point where the telling may continue in several ways."""

    weighted: Weighted
    banned: tuple[int, ...]
    slot: str  # the slot that the choice settles; "" for a phrase or a word without consequence
    kind: str  # of an entry; "" for a phrase
    part: str = ""  # of a word without consequence


@cache
def compile_rule(name: str) -> Rule:
    """The rule `name` or `name:a,b`, with its arguments inserted."""
    base, _, arguments = name.partition(":")
    phrases, weights, guards = [], [], []
    for line in RULES[base]:
        for number, argument in enumerate(arguments.split(","), start=1):
            line = line.replace(f"${number}", argument)
        match = re.fullmatch(r"(?:(\d+)\|)?\s*((?:\[[^]]*\]\s*)*)(.*)", line)
        assert match, line
        weights.append(int(match[1] or 1))
        guards.append(tuple(_guard(text) for text in re.findall(r"\[([^]]*)\]", match[2])))
        phrases.append(tuple(reversed(_compile_phrase(match[3]))))
    return Rule(Weighted(phrases, weights), tuple(guards) if any(guards) else ())


def _guard(text: str) -> tuple[bool, str, str]:
    left, _, right = text.lstrip("!").partition("=")
    return not text.startswith("!"), left, right


def _compile_phrase(text: str) -> list[Op]:
    ops: list[Op] = []
    for literal, slot, rule, assign in re.findall(
        r"([^{<(]+)|\{([^}]*)\}|<([^>]*)>|\(([^)]*)\)", text
    ):
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
        assert name[1:] in KINDS, text
        return Passing(name[1:], part)
    if name in HERO_PARTS:
        return Mention("hero", name, origin("child", name))
    assert name in SLOTS, text
    return Mention(name, part, origin(SLOTS[name].partition(" by ")[0], part))


def origin(kind: str, part: str) -> str:
    """Where a piece is from: "kind" for an entry's own word, "kind.part" for what goes with it."""
    return f"{kind}.{part}" if part else kind


class Telling:
    """A story half told: the operations to do (last first), the world, the pieces of text so far.

    `origins`: where each piece is from, "kind" or "kind.part" of an entry, "" for the phrase's own words.
    """

    __slots__ = ("origins", "pieces", "todo", "world")

    def __init__(self, todo: list[Op] | None = None, world: World | None = None):
        self.todo: list[Op] = [Call("story")] if todo is None else todo
        self.world = world or World()
        self.pieces: list[str] = []
        self.origins: list[str] = []

    def fork(self) -> Telling:
        """An independent copy; its pieces start empty."""
        return Telling(self.todo.copy(), self.world.copy())

    def advance(self) -> Choice | None:
        """Continue to the next choice; None at the end of the story."""
        todo, facts, pieces, origins = self.todo, self.world.facts, self.pieces, self.origins
        while todo:
            op = todo.pop()
            if isinstance(op, str):
                pieces.append(op)
                origins.append("")
            elif isinstance(op, Mention):
                entry = facts.get(op.slot)
                if entry is None:
                    todo.append(op)
                    return self._settling(op.slot)
                pieces.append(entry.parts[op.part])
                origins.append(op.origin)
            elif isinstance(op, Call):
                rule = compile_rule(op.rule)
                if rule.guards or len(rule.phrases.options) > 1:
                    return Choice(self._open_phrases(rule), (), "", "")
                todo.extend(rule.phrases.options[0])
            elif isinstance(op, Passing):
                return Choice(KINDS[op.kind], (), "", op.kind, op.part)
            else:
                facts[op.target] = facts[op.source]
        return None

    def _settling(self, slot: str) -> Choice:
        kind, master = self.world.source(slot)
        if master is not None:
            return self._settling(master)
        weighted, banned = self.world.options(kind)
        return Choice(weighted, banned, slot, kind)

    def _open_phrases(self, rule: Rule) -> Weighted:
        if not rule.guards:
            return rule.phrases
        holds = self.world.holds
        allowed = (
            i
            for i, guards in enumerate(rule.guards)
            if all(holds(left, right) == wanted for wanted, left, right in guards)
        )
        return rule.phrases.restrict(tuple(allowed))

    def take(self, choice: Choice, index: int) -> None:
        """Take option index of the choice that advance returned."""
        if choice.slot:
            self.world.settle(choice.slot, choice.kind, index)
        elif choice.kind:
            self.pieces.append(choice.weighted.options[index].parts[choice.part])
            self.origins.append(origin(choice.kind, choice.part))
        else:
            self.todo.extend(choice.weighted.options[index])


def first_piece(telling: Telling, choice: Choice, index: int) -> tuple[str, str]:
    """What option index of the choice tells first, and where that is from; "" if it depends on further choices."""
    option = choice.weighted.options[index]
    if not choice.kind:
        return (option[-1], "") if option and isinstance(option[-1], str) else ("", "")
    if not choice.slot:
        return option.parts[choice.part], origin(choice.kind, choice.part)
    asked = telling.todo[-1]
    if isinstance(asked, Mention) and asked.slot == choice.slot:
        return option.parts[asked.part], origin(choice.kind, asked.part)
    return "", ""


def render(pieces: list[str]) -> str:
    """Join pieces to prose: single spaces, capitals as marked, `an` before a vowel's sound."""
    text = re.sub(r" +", " ", "".join(pieces)).strip()
    text = re.sub(r" +(?=[.,!?;])", "", text)
    text = re.sub(r"\^(\W*)(\w)", lambda match: match[1] + match[2].upper(), text)
    return VOWEL_SOUND.sub(r"\1n ", text)


def told(sampler: Sampler) -> Telling:
    """One whole telling, drawn by the sampler."""
    telling = Telling()
    while (choice := telling.advance()) is not None:
        telling.take(choice, sampler.pick(choice.weighted, choice.banned))
    return telling


def tell(sampler: Sampler) -> tuple[str, World]:
    """One story, drawn by the sampler, and the world at its end."""
    telling = told(sampler)
    return render(telling.pieces), telling.world
