"""What the phrases of a world can tell: whether stories end, and where pieces would be joined to one word."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise, product

from tinylm.storybook.grammar import Call, Mention, Op, Passing, Rule, ops_of, shown
from tinylm.storybook.world import World, storybook

# Where two pieces meet inside a word, by the classes of `_class_of` around the border.
_JOINED = re.compile(r"[ld]m?\|[ld]|[ld]\|m[ld]|dn\|d|d\|nd")


class _Texts:
    """What an op can tell: whether it may tell no word, and how its texts begin and end."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._silent: dict[Op, bool] = {}
        self._shapes: dict[Op, set[str]] = {}

    def of(self, op: Op) -> Iterator[str]:
        """The texts of an op; [""] of a call."""
        if isinstance(op, Passing):
            yield from (entry[op.part] for entry in self.world.lists[op.kind].options)
        elif isinstance(op, Mention):
            for _, words in self.world.symbols.lists_of(op.slot):
                yield from (entry[op.part] for entry in words.options)
        else:
            yield op if isinstance(op, str) else ""

    def is_silent(self, op: Op, silent: set[str]) -> bool:
        """Whether an op can tell no word. silent: the rules that can."""
        if isinstance(op, Call):
            return op.rule in silent
        if op not in self._silent:
            self._silent[op] = any(not self.world.normalise(text) for text in self.of(op))
        return self._silent[op]

    def shapes(self, op: Op, of_rules: Mapping[str, set[str]]) -> set[str]:
        """How the texts of an op begin and end, by the classes of `_class_of`."""
        if isinstance(op, Call):
            return of_rules[op.rule]
        if op not in self._shapes:
            self._shapes[op] = {_shape(text) for text in self.of(op)}
        return self._shapes[op]


def check_lengths(world: World, rules: Mapping[str, Rule]) -> None:
    """No rule calls itself before a word (left recursion), or once or more on average."""
    texts = _Texts(world)
    silent: set[str] = set()
    found = {name for name, rule in rules.items() if _can_be_silent(texts, rule, silent)}
    while found != silent:
        silent = found
        found = {name for name, rule in rules.items() if _can_be_silent(texts, rule, silent)}
    begins: dict[str, set[str]] = {}
    for name, rule in rules.items():
        begins[name] = set()
        for phrase in rule.phrases.options:
            for op in reversed(phrase):
                if isinstance(op, Call):
                    begins[name].add(op.rule)
                if not texts.is_silent(op, silent):
                    break
    for name in _in_cycles(begins):
        world.plots.report(
            rules[name].lines[0], f"expected a word before {name} calls itself again, got none"
        )
    for cycle, calls in _growth(rules):
        if calls >= 1 - 1e-9:
            world.plots.report(
                rules[cycle[0]].lines[0],
                f"expected stories that end: fewer than 1 further call of {', '.join(cycle)} "
                f"by each one on average, got {calls:.3g}",
            )


def _can_be_silent(texts: _Texts, rule: Rule, silent: set[str]) -> bool:
    return any(all(texts.is_silent(op, silent) for op in phrase) for phrase in rule.phrases.options)


def _in_cycles(graph: Mapping[str, set[str]]) -> list[str]:
    """The nodes from which a path leads back to them."""
    return [node for node in graph if node in _after(graph, node)]


def _after(graph: Mapping[str, set[str]], node: str) -> set[str]:
    """The nodes to which a path leads."""
    seen: set[str] = set()
    waiting = list(graph[node])
    while waiting:
        reached = waiting.pop()
        if reached not in seen:
            seen.add(reached)
            waiting += graph[reached]
    return seen


def _growth(rules: Mapping[str, Rule]) -> Iterator[tuple[list[str], float]]:
    """Each cycle of rules, with the factor by which their calls grow from one level to the next.

    The factor is the largest eigenvalue of the matrix of mean calls, of each rule by each rule. Guards
    are ignored: a phrase with guards is as frequent as its weight says.
    """
    import numpy as np

    calls: dict[str, Counter[str]] = {}
    for name, rule in rules.items():
        calls[name] = Counter()
        for weight, phrase in zip(rule.phrases.weights, rule.phrases.options, strict=True):
            for op in phrase:
                if isinstance(op, Call):
                    calls[name][op.rule] += weight / rule.phrases.total  # type: ignore[assignment]
    graph = {name: set(called) for name, called in calls.items()}
    left = _in_cycles(graph)
    while left:
        cycle = [name for name in left if name in _after(graph, left[0])]
        cycle = [name for name in cycle if left[0] in _after(graph, name)]
        matrix = np.array([[calls[name][called] for called in cycle] for name in cycle])
        yield cycle, float(np.abs(np.linalg.eigvals(matrix)).max())
        left = [name for name in left if name not in cycle]


def check_joins(world: World, rules: Mapping[str, Rule]) -> None:
    """No word is joined from two neighbouring pieces: a space or a mark separates them."""
    texts = _Texts(world)
    shapes: dict[str, set[str]] = {name: set() for name in rules}
    waiting = list(rules)
    callers: dict[str, set[str]] = {name: set() for name in rules}
    for name, rule in rules.items():
        for op in ops_of([rule]):
            if isinstance(op, Call):
                callers[op.rule].add(name)
    while waiting:
        name = waiting.pop()
        found: set[str] = set()
        for phrase in rules[name].phrases.options:
            found |= _shapes_of(texts, phrase, shapes)
        if found != shapes[name]:
            shapes[name] = found
            waiting += callers[name]
    for rule in rules.values():
        for phrase, line in zip(rule.phrases.options, rule.lines, strict=True):
            told = {""}
            for before, op in pairwise(["", *reversed(phrase)]):
                after = texts.shapes(op, shapes)
                if any(_JOINED.search(f"{a}|{b}") for a, b in product(told, after)):
                    world.plots.report(
                        line,
                        f"expected a space between {shown(before)} and {shown(op)}, got one word; "
                        "write it as one part",
                    )
                told = _joined(told, after)


def _shapes_of(texts: _Texts, phrase: Sequence[Op], of_rules: Mapping[str, set[str]]) -> set[str]:
    told = {""}
    for op in reversed(phrase):
        told = _joined(told, texts.shapes(op, of_rules))
    return told


def _joined(before: set[str], after: set[str]) -> set[str]:
    return {_short(a + b) for a, b in product(before, after)}


@cache
def _shape(text: str) -> str:
    return _short("".join(map(_class_of, text.replace("^", ""))))


@cache
def _class_of(character: str) -> str:
    """What a character is where words are split.

    l: a letter; d: a digit; m: a mark inside words, such as "-"; n: one between digits, such as ".";
    s: anything else, which separates words.
    """
    normalise = storybook().normalise
    if normalise(character):
        return "d" if character.isdecimal() else "l"
    if " " not in normalise(f"a{character}a"):
        return "m"
    return "s" if " " in normalise(f"1{character}1") else "n"


def _short(shape: str) -> str:
    """The first and the last two classes."""
    return shape if len(shape) <= 4 else f"{shape[:2]}.{shape[-2:]}"
