"""What is wrong with a world: every problem at once, by file and line.

Reading already finds malformed lines and undefined names. Here the rules are followed from `story`:
what can never be told, and which tellings have the same words. `check_texts` finds what never ends,
and where two pieces would be joined to one word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tinylm.base.config import InputError, Problems
from tinylm.storybook.check_texts import check_joins, check_lengths
from tinylm.storybook.corpus import Sampler, sample_telling
from tinylm.storybook.grammar import Assign, Mention, Passing, Rule, ops_of, shown
from tinylm.storybook.language import END, OF_RULES
from tinylm.storybook.truth import Truth
from tinylm.storybook.world import World, storybook

DRAWN = 50  # stories that are told and read again
SAME = 1e-6  # nats between the two probabilities of a story, at most


def world_of(
    source: str, path: str | None, folder: str | Path = ".", digest: str | None = None
) -> World | None:
    """The world that wrote the stories of `data.source`, None for stories of others.

    path: `data.path`, relative to the folder of the run. digest: of the world that wrote them, as
    stage download noted it; None if unknown. Raises InputError if a world's folder is missing, cannot
    be read, or has changed since.
    """
    if source == "storybook":
        return storybook()
    if source != "world":
        return None
    world = read_world(Path(folder) / (path or ""), follow=False)
    if digest not in (None, world.digest()):
        raise InputError(
            f"{world.folder}: expected the files that the stories were written from, got changed ones; "
            "run dvc repro, or restore them"
        )
    return world


def read_world(folder: str | Path, follow: bool = True) -> World:
    """The world of a folder. Raises InputError with a line for each problem.

    follow: also finds problems that show only when the rules are followed, as `problems_of` does.
    """
    if not Path(folder).is_dir():
        raise InputError(
            f"data.path: expected the folder of this run's world, got no folder {folder}"
        )
    world = World(folder)
    problems_of(world, follow).refuse()
    return world


def problems_of(world: World, follow: bool = True) -> Problems:
    """Everything that is wrong, except what only stories show. follow: as for `read_world`."""
    problems = world.problems
    _check_lists(world)
    _check_slots(world)
    _check_language(world)
    _check_names_of_rules(world)
    rules = world.reachable(problems)
    if not follow:
        return problems
    for name, section in world.symbols.rules.items():
        if ":" not in name and name not in {called.partition(":")[0] for called in rules}:
            with problems.collected():  # what is wrong in a rule that no story calls
                if not any("$" in line.text for line in section.lines):
                    world.rule(name)
    if not problems.lines:
        _check_use(world, rules)
        _check_phrases(world, rules)
        check_lengths(world, rules)
        check_joins(world, rules)
    return problems


def _check_lists(world: World) -> None:
    """Each word once in a list."""
    file = world.file("lexicon.txt")
    for words in world.lists.values():
        seen: dict[str, int] = {}
        for entry, number in zip(words.options, words.numbers, strict=True):
            word = world.normalise(entry[""])
            if not word:
                file.report(number, f"expected a word with a letter, got {entry['']!r}")
            elif word in seen:
                file.report(
                    number, f"expected each word once, got {entry['']!r} as in line {seen[word]}"
                )
            seen.setdefault(word, number)


def _check_names_of_rules(world: World) -> None:
    """A colon separates a rule's name from its arguments, so no name has one."""
    for name, section in world.symbols.rules.items():
        if not name or ":" in name:
            world.plots.report(
                section.number, f"expected a rule's name without a colon, got {name!r}"
            )


def _check_slots(world: World) -> None:
    """Each slot has its lists, and each list has enough words for the slots that share it."""
    file = world.file("slots.txt")
    users: Counter[str] = Counter()
    for name, slot in list(world.slots.items()):
        if slot.master and (slot.master not in world.slots or _is_in_cycle(world, name)):
            file.report(slot.line, f"expected another slot after 'by', got {slot.master!r}")
            world.slots[name] = slot._replace(master="")
    for slot in world.slots.values():
        wanted = [slot.kind]
        if slot.master:
            for _, words in world.symbols.lists_of(slot.master):
                if slot.part not in ("", *words.parts):
                    got = f"{slot.master}.{slot.part}"
                    file.report(
                        slot.line, f"expected a part of the slot {slot.master!r}, got {got}"
                    )
            values = dict.fromkeys(world.symbols.values_of(slot))
            wanted = [f"{slot.kind}:{value}" for value in values]
        for kind in wanted:
            users[kind] += 1
            if kind not in world.lists:
                file.report(slot.line, f"expected the list {kind}: in lexicon.txt, got none")
    for kind, count in users.items():
        listed = world.lists.get(kind)
        if listed and 0 < len(listed.options) < count:
            world.file("lexicon.txt").report(
                listed.number,
                f"expected at least {count} words, one for each slot of slots.txt with {kind}, "
                f"got {len(listed.options)}",
            )


def _is_in_cycle(world: World, name: str) -> bool:
    seen = set()
    while name in world.slots and name not in seen:
        seen.add(name)
        name = world.slots[name].master
    return name in seen


def _check_language(world: World) -> None:
    file = world.file("language.txt")
    for part, (slot, line) in world.language.pronouns.items():
        if slot not in world.slots:
            file.report(line, f"expected a slot of slots.txt, got {slot!r}")
        elif any(part not in words.parts for _, words in world.symbols.lists_of(slot)):
            file.report(line, f"expected a part of the slot {slot!r}, got {part!r}")
        if part in world.slots:
            file.report(line, f"expected a name that no slot has, got {part!r}")
    names = {name.partition(":")[0] for name in world.lists}
    for _, listed, line in world.language.kinds.values():
        for name in listed:
            if name not in names:
                file.report(line, f"expected a list of lexicon.txt, got {name!r}")
    if not world.language.kinds:
        for name, words in world.lists.items():
            if name in OF_RULES:
                world.file("lexicon.txt").report(
                    words.number, f"expected a list not named {' or '.join(OF_RULES)}, got {name}:"
                )


def _check_use(world: World, rules: Mapping[str, Rule]) -> None:
    """Whether every rule, slot and list can occur in a story."""
    called = {name.partition(":")[0] for name in rules}
    for name, section in world.symbols.rules.items():
        if name not in called:
            world.plots.report(section.number, f"expected a rule that a story uses, got {name}:")
    slots: set[str] = set()
    lists: set[str] = set()
    for op in ops_of(rules.values()):
        if isinstance(op, Mention):
            slots.add(op.slot)
        elif isinstance(op, Assign):
            slots |= {op.target, op.source}
        elif isinstance(op, Passing):
            lists.add(op.kind)
    for name in list(slots):
        while world.slots[name].master:
            name = world.slots[name].master
            slots.add(name)
    for name, slot in world.slots.items():
        if name in slots:
            lists |= {kind for kind, _ in world.symbols.lists_of(name)}
        else:
            world.file("slots.txt").report(
                slot.line, f"expected a slot that a story uses, got {name!r}"
            )
    for name, words in world.lists.items():
        if name not in lists:
            world.file("lexicon.txt").report(
                words.number, f"expected a list that a story uses, got {name}:"
            )


def _check_phrases(world: World, rules: Mapping[str, Rule]) -> None:
    """No two phrases of a rule with the same words, under the same guards; nor two words of a list."""
    for op in set(ops_of(rules.values())):
        if isinstance(op, Passing) and op.part:
            listed = world.lists[op.kind]
            told = Counter(world.normalise(entry[op.part]) for entry in listed.options)
            word, count = told.most_common(1)[0]
            if count > 1:
                world.file("lexicon.txt").report(
                    listed.number, f"expected each {shown(op)} once, got {word!r} {count} times"
                )
    for rule in rules.values():
        seen: dict[tuple[object, ...], int] = {}
        for index, phrase in enumerate(rule.phrases.options):
            said: list[object] = []
            for op in phrase:
                words = world.normalise(op).split() if isinstance(op, str) else [op]
                said += reversed(words)
            guards = tuple(rule.guards[index]) if rule.guards else ()
            line = rule.lines[index]
            first = seen.setdefault((guards, *said), line)
            if first != line:
                world.plots.report(
                    line, f"expected other words than the phrase in line {first}, got the same"
                )


def try_stories(world: World) -> int:
    """Tell DRAWN stories and read them again; returns how many are repeats.

    Raises InputError for one that cannot be read, or that can be told in several ways.
    """
    sampler = Sampler("try")
    seen: set[str] = set()
    for _ in range(DRAWN):
        sampler.log_prob = 0.0
        text = world.render(sample_telling(sampler, world).pieces)
        _read_again(world, text, sampler.log_prob)
        seen.add(world.normalise(text))
    return DRAWN - len(seen)


def _read_again(world: World, text: str, log_prob: float) -> None:
    truth = Truth(world)
    where = f"{world.plots.path}: in the story {text[:300]!r}"
    for word in [*world.normalise(text).split(), END]:
        if not truth.read(word):
            likeliest = ", ".join(list(truth.next_words().probs)[:5])
            raise InputError(f"{where}: expected {likeliest}, got {word!r}")
    if abs(truth.log_prob - log_prob) > SAME:
        raise InputError(
            f"{where}: expected one way to tell these words, got several: ln P of the words is "
            f"{truth.log_prob:.6f}, of the way that was drawn {log_prob:.6f}"
        )
