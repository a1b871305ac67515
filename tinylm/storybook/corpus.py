"""Stories that a world tells, each with the exact log-probability of its words."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tinylm.base.config import InputError
from tinylm.storybook.grammar import Call, Mention, Op, Passing, Rule, origin
from tinylm.storybook.lexicon import Entry, Indices, Weighted, refuse
from tinylm.storybook.world import START, World, storybook

MOST_PIECES = 20_000  # of a story
MOST_REPEATS = 1_000  # in a row, after which the world is taken to have no more stories


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


class Telling:
    """A partly told story of a world.

    todo: what to do, last first. facts: the entry of each slot (hero, thing, place, holder) that is
    settled. used: indices of entries of each kind that a slot has, which no other slot can have.
    pieces, origins: what was told so far, and where each piece is from.
    """

    def __init__(
        self,
        world: World,
        todo: list[Op],
        facts: dict[str, Entry] | None = None,
        used: dict[str, Indices] | None = None,
    ):
        self.world = world
        self.todo = todo
        self.facts = facts or {}
        self.used = used or {}
        self.pieces: list[str] = []
        self.origins: list[str] = []

    def fork(self) -> Telling:
        """An independent copy; its pieces start empty."""
        return Telling(self.world, self.todo.copy(), self.facts.copy(), self.used.copy())

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
                rule = self.world.rule(op.rule)
                if rule.guards or len(rule.phrases.options) > 1:
                    return Choice(self._open_phrases(rule), (), "", "")
                self.todo.extend(rule.phrases.options[0])
            elif isinstance(op, Passing):
                return Choice(self.world.lists[op.kind], (), "", op.kind, op.part)
            elif op.source in facts:
                facts[op.target] = facts[op.source]
            else:
                self.todo.append(op)
                return self._choice_of_entry(op.source)
        return None

    def _tell(self, piece: str, origin: str) -> None:
        self.pieces.append(piece)
        self.origins.append(origin)

    def _choice_of_entry(self, slot: str) -> Choice:
        """The choice of a slot's entry, or of the slot that must be settled before it."""
        kind, master, part, _ = self.world.slots[slot]
        if master:
            if master not in self.facts:
                return self._choice_of_entry(master)
            kind = f"{kind}:{self.facts[master][part]}"
        return Choice(self.world.lists[kind], self.used.get(kind, ()), slot, kind)

    def _open_phrases(self, rule: Rule) -> Weighted:
        if not rule.guards:
            return rule.phrases
        allowed = []
        for index, guards in enumerate(rule.guards):
            if all(map(self._allows, guards)):
                allowed.append(index)
        if not allowed:
            raise refuse(
                self.world.plots.path,
                rule.lines[0],
                f"expected a phrase of {rule.name} whose guards hold, got none in a story that has "
                f"chosen {', '.join(self.facts) or 'no slot'}; write (slot=slot) before the rule to choose one",
            )
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


def sample_telling(sampler: Sampler, world: World | None = None, start: str = START) -> Telling:
    """One whole telling of the rule `start`, drawn by the sampler; of the storybook by default.

    Raises InputError if it does not end.
    """
    world = world or storybook()
    telling = Telling(world, [Call(start)])
    while choice := telling.advance():
        telling.take(choice, sampler.pick(choice.weighted, choice.banned))
        if len(telling.pieces) + len(telling.todo) > MOST_PIECES:
            raise InputError(
                f"{world.plots.path}: expected stories that end, got one of over {MOST_PIECES:,} pieces"
            )
    return telling


@dataclass(frozen=True)
class Story:
    """text: prose in one paragraph; log_prob: ln P(text) in nats, to 6 decimals."""

    text: str
    log_prob: float


def sample_story(sampler: Sampler, world: World) -> tuple[Story, str]:
    """(one story, drawn by the sampler; its words).

    Raises InputError if words of two pieces were written as one, so that no reader could tell them.
    """
    sampler.log_prob = 0.0
    telling = sample_telling(sampler, world)
    text = world.render(telling.pieces)
    words = world.normalise(text)
    told = " ".join(world.words_of_telling(telling.pieces, telling.origins))
    if words != told:
        raise InputError(
            f"{world.plots.path}: in the story {text[:300]!r}: expected the words {told[:300]!r}, "
            f"got {words[:300]!r}; a word is told by one piece"
        )
    return Story(text, round(sampler.log_prob, 6)), words


def generate(
    train: int, evaluation: int, seed: int, world: World | None = None
) -> tuple[Iterator[Story], Iterator[Story]]:
    """(train stories, evaluation stories): all different, none in both, the same for the same seed.

    Evaluation is drawn at once, train while it is read. A story that is drawn twice is dropped.
    Raises InputError if the world has too few stories.
    """
    world = world or storybook()
    seen: set[str] = set()
    for_evaluation = list(_different(world, evaluation, f"storybook evaluation {seed}", seen))
    return _different(world, train, f"storybook train {seed}", seen), iter(for_evaluation)


def _different(world: World, count: int, seed: str, seen: set[str]) -> Iterator[Story]:
    sampler = Sampler(seed)
    found = repeats = 0
    while found < count:
        story, key = sample_story(sampler, world)
        repeats = repeats + 1 if key in seen else 0
        if repeats > MOST_REPEATS:
            raise InputError(
                f"{world.folder}: expected {count:,} different stories, got {found:,} before "
                f"{MOST_REPEATS:,} repeats in a row; ask for fewer, or add words"
            )
        if not repeats:
            seen.add(key)
            found += 1
            yield story
