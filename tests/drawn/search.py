"""Searching for runs on which a property fails: what one process does, and what it has drawn."""

import dataclasses
import itertools
import os
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis.internal.conjecture.engine as hypothesis_engine
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.drawn.drawing import (
    FIELDS,
    ONLY_ON_A_CARD,
    Changes,
    DrawnRun,
    Row,
    runs,
    settings_alone,
    with_changes,
)
from tests.drawn.pairs import may_run, rows
from tests.drawn.properties import (
    ALONE,
    EVERY_STAGE_ENDS,
    Check,
    Property,
    check_property,
    load_properties,
    to_yaml,
)
from tests.drawn.running import LEVELS, EndsEarly, advance

PIPELINE = "whole runs"  # the search that shares one run between all properties that are not alone
# Seconds for one round of all searches; whole runs get half of it.
ROUND_S = 480.0
# Settings that say which files there are.
WITH_FILES = {
    "data.source",
    "data.path",
    "data.column",
    "data.drop_first_line",
    "vocab.path",
    "vocab.tokenizer",
}
WITH_FILES |= {"embedding.source", "embedding.path", "embedding.hub", "embedding.width"}
SHRINKING_S = 60  # at most by hypothesis, for one failure, and as long by dropping settings
Value = tuple[str, Any]


class TurnIsOver(BaseException):
    """The next search begins; unlike an Exception, hypothesis does not take it for a failure."""


@dataclass
class Found:
    """What a search did. drawn: how often each value of a key was in a run that ended well."""

    runs: Counter[str] = field(default_factory=Counter)
    drawn: Counter[Value] = field(default_factory=Counter)
    pairs: Counter[tuple[Value, Value]] = field(default_factory=Counter)
    legal: list[Changes] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def add(self, other: "Found") -> None:
        self.runs += other.runs
        self.drawn += other.drawn
        self.pairs += other.pairs
        self.legal += other.legal
        self.failures += other.failures


def value_of(name: str, value: Any) -> Any:
    """A value as it is counted: itself where there are few of them, else where in its range it lies."""
    _, allowed = FIELDS[name]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value if allowed.choices else "text"
    if isinstance(value, list):
        return ("none", "one", "several")[min(len(value), 2)]
    return "lowest" if value == allowed.low else "a number"


def chosen_values(params: dict[str, dict[str, Any]]) -> list[Value]:
    """(key, value) of every key, as counted."""
    names = [name for name in FIELDS if not name.endswith((".path", ".hub", ".column"))]
    values = []
    for name in names:
        section, _, key = name.partition(".")
        values.append((name, value_of(name, params[section][key])))
    return values


def choices_of(name: str) -> list[Any]:
    """The values of a key that has few of them: choices, true and false, null or not."""
    kind, allowed = FIELDS[name]
    if allowed.choices:
        return [choice for choice in allowed.choices if choice != ONLY_ON_A_CARD.get(name)]
    return [False, True] if kind is bool else []


def is_pair(value: Value) -> bool:
    """Whether pairs are counted of this value."""
    return value[1] is None or bool(choices_of(value[0]))


def pairs_of(values: list[Value]) -> set[tuple[Value, Value]]:
    """The pairs that are counted."""
    return set(itertools.combinations(filter(is_pair, values), 2))


def signature(name: str, error: BaseException) -> str:
    """What tells one failure from another: the property, the error and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if re.search(r"/(tinylm|stages|drawn)/", frame.filename)]
    last = ours[-1] if ours else frames[-1]
    place = "/".join(Path(last.filename).parts[-2:])
    return f"{name}, {type(error).__name__} in {place}:{last.name}"


class Search:
    """The searches of one process.

    folder: where failures are written, as SIGNATURE.yaml; those of other processes are known too. seconds: how long to search.
    """

    def __init__(self, folder: Path, seconds: float, only: str = "") -> None:
        self.folder = folder
        self.end = time.monotonic() + seconds
        self.found = Found()
        self.minimal: tuple[str, DrawnRun, BaseException] | None = None
        self.began: set[str | None] = set()  # properties whose search had a turn
        self.met: set[tuple[Value, Value]] = set()  # in whole runs that ended well
        properties = load_properties()
        self.properties = [each for each in properties.values() if only in each.name]
        self.last_level = LEVELS[-1]
        levels = [each.level for each in self.properties if each.level != ALONE]
        if only and levels:
            self.last_level = max(levels, key=LEVELS.index)
        alone = [each for each in self.properties if each.level == ALONE]
        whole_runs = [None] if levels else []  # None: the search of whole runs
        self.searches: list[Property | None] = [*whole_runs, *alone]
        half_s = min(ROUND_S, seconds) / 2
        self.whole_s = half_s if alone else 2 * half_s
        self.alone_s = (half_s if levels else 2 * half_s) / max(len(alone), 1)

    def is_known(self, sign: str) -> bool:
        return (self.folder / f"{file_name(sign)}.yaml").exists()

    def run(self, first_seed: int, report: Callable[[Found], None]) -> None:
        """Search until the end; `report` gets what each turn has found."""
        for number in itertools.count():
            for chosen in self.searches:
                if time.monotonic() > self.end:
                    return
                self.found = Found()
                self.search(chosen, first_seed + number)
                report(self.found)

    def rows_left(self, number: int) -> list[Row]:
        """In every other turn, the rows with a pair that no whole run has met yet; otherwise new combinations of the levels."""
        left = [
            row
            for row in rows()
            if not pairs_of(chosen_values(with_changes(row.changes))) <= self.met
        ]
        # Some rows never end well: tinylm may refuse them once it knows the stories.
        return left if left and number % 2 else rows(number)

    def search(self, chosen: Property | None, number: int) -> None:
        """One turn: some examples of whole runs, or of one property alone."""
        if chosen is None:
            strategy = runs(self.rows_left(number))
        else:
            strategy = settings_alone(rows()) if chosen.settings_alone else runs(rows())
        turn_s = self.alone_s if chosen else self.whole_s
        started = time.monotonic()
        name = chosen and chosen.name
        knows_simplest = name in self.began
        self.began.add(name)

        @seed(number)
        @settings(
            max_examples=200,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
            report_multiple_bugs=False,
        )
        @given(strategy)
        def test(drawn: DrawnRun) -> None:
            is_late = time.monotonic() > min(started + turn_s, self.end)
            if is_late and self.minimal is None:
                raise TurnIsOver
            # hypothesis begins every turn with the simplest run, which the first turn has checked.
            if drawn == DrawnRun() and knows_simplest and self.minimal is None:
                return
            self.try_one(chosen, drawn)

        hypothesis_engine.MAX_SHRINKING_SECONDS = SHRINKING_S
        self.minimal = None
        try:
            test()
        except TurnIsOver:
            pass
        except BaseException as error:
            if not isinstance(error, Exception) or self.minimal is None:
                raise
        if self.minimal is not None:
            self.drop_needless_changes(*self.minimal)
            self.write_failure(*self.minimal)

    def drop_needless_changes(self, name: str, drawn: DrawnRun, error: BaseException) -> None:
        """Drop settings while the run still fails in the same way; a row of pairs changes many at once.

        Settings that describe the files stay, because the files stay the same.
        """
        wanted = signature(name, error)
        end = time.monotonic() + SHRINKING_S
        of_files = {key: value for key, value in drawn.changes.items() if key in WITH_FILES}
        size = max(len(drawn.changes) // 2, 1)
        while size:
            start = 0
            while start < len(drawn.changes) and time.monotonic() < end:
                needless = list(drawn.changes)[start : start + size]
                fewer = {key: drawn.changes[key] for key in drawn.changes if key not in needless}
                fewer |= of_files
                simpler = dataclasses.replace(drawn, changes=fewer)
                may_fail = len(fewer) < len(drawn.changes) and may_run(fewer)
                failed = failure_of(name, simpler) if may_fail else None
                if failed and signature(name, failed) == wanted:
                    drawn = simpler
                    self.minimal = (name, drawn, failed)
                else:
                    start += size
            size //= 2

    def try_one(self, chosen: Property | None, drawn: DrawnRun) -> None:
        """Check one drawn run. Raises what is wrong, unless it is known already."""
        folder = Path(tempfile.mkdtemp(prefix="drawn-"))
        try:
            if chosen is None:
                self._try_run(drawn, folder)
            else:
                self._checked(chosen.name, chosen.check, drawn, folder)
                self.found.runs[chosen.name] += 1
        except EndsEarly as ending:
            self.found.runs[type(ending).__name__] += 1
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _try_run(self, drawn: DrawnRun, folder: Path) -> None:
        for level in LEVELS:
            if not self._checked(EVERY_STAGE_ENDS, partial(advance, level), drawn, folder):
                return
            for each in self.properties:
                if each.level == level:
                    self._checked(each.name, each.check, drawn, folder)
            if level == self.last_level:
                break
        if self.minimal is not None:  # a failure is being shrunk: its runs are not drawn any more
            return
        self.found.runs[PIPELINE] += 1
        values = chosen_values(drawn.params())
        self.found.drawn.update(values)
        self.met |= pairs_of(values)
        self.found.pairs.update(pairs_of(values))
        self.found.legal.append(drawn.changes)

    def _checked(self, name: str, check: Check, drawn: DrawnRun, folder: Path) -> bool:
        """Whether a check ended well; raises if it failed in a way that is not known."""
        try:
            check(drawn, folder)
            return True
        except EndsEarly:
            raise
        except Exception as error:
            sign = signature(name, error)
            if self.is_known(sign):
                self.found.runs[f"known failure: {sign}"] += 1
                return False
            self.minimal = (name, drawn, error)
            raise

    def write_failure(self, name: str, drawn: DrawnRun, error: BaseException) -> None:
        sign = signature(name, error)
        lines = "".join(traceback.format_exception(error)[-6:])
        text = f"{sign}\n{type(error).__name__}: {str(error)[:1500]}\n{lines[-2500:]}"
        path = self.folder / f"{file_name(sign)}.yaml"
        if not path.exists():
            path.write_text(to_yaml(name, drawn, text), encoding="utf-8")
            self.found.failures.append(str(path))


def failure_of(name: str, drawn: DrawnRun) -> Exception | None:
    """What checking one property of a run raises, if it is a failure."""
    with tempfile.TemporaryDirectory(prefix="drawn-") as folder:
        try:
            check_property(name, drawn, Path(folder))
        except EndsEarly:
            return None
        except Exception as error:
            return error
    return None


def file_name(sign: str) -> str:
    return re.sub(r"[^\w]+", "-", sign).strip("-")[:150]


def quietly(search: Search, first_seed: int, report: Callable[[Found], None]) -> None:
    """Run the searches of one process; what is printed, by libraries in C too, is thrown away."""
    with open(os.devnull, "w", encoding="utf-8") as null:
        for stream in (1, 2):
            os.dup2(null.fileno(), stream)
        sys.stdout = sys.stderr = null
        torch.set_num_threads(1)  # each core has a process of its own
        search.run(first_seed, report)
