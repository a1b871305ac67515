"""The world of one story: who is in it, where things are, who holds them. A fact is settled when first told."""

from __future__ import annotations

from dataclasses import dataclass, field

from tinylm.storybook.chooser import Weighted
from tinylm.storybook.lexicon.kinds import KINDS, SLOTS, Entry


@dataclass(slots=True)
class World:
    """Slots (hero, thing, place, holder, ...) bound to entries; holder=pal and the like change a fact."""

    facts: dict[str, Entry] = field(default_factory=dict)
    used: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def copy(self) -> World:
        return World(dict(self.facts), dict(self.used))

    def source(self, slot: str) -> tuple[str, str | None]:
        """The name of the list that slot is drawn from, and the slot that must be settled before it, if any."""
        kind, _, key = SLOTS[slot].partition(" by ")
        if not key:
            return kind, None
        master, _, part = key.partition(".")
        if master not in self.facts:
            return kind, master
        return f"{kind}:{self.facts[master].parts[part]}", None

    def options(self, kind: str) -> tuple[Weighted, tuple[int, ...]]:
        """The values for a slot of that kind: never one that another slot of the story already has."""
        return KINDS[kind], self.used.get(kind, ())

    def settle(self, slot: str, kind: str, index: int) -> None:
        self.facts[slot] = KINDS[kind].options[index]
        self.used[kind] = (*self.used.get(kind, ()), index)

    def holds(self, left: str, right: str) -> bool:
        """Whether slot left is known and, where right is given, is what slot right is, or reads right."""
        entry = self.facts.get(left)
        if entry is None or not right:
            return entry is not None
        return entry is self.facts.get(right) or right in entry.parts.values()
