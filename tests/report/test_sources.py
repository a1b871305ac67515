"""Which result each number of the report shows.

sources.yaml lists, for each number in the report, the results that it depends on. If a template uses the wrong one of two
similar results, the test fails. After a change of the report, `TINYLM_ACCEPT=1 pytest tests/report/test_sources.py` writes the
file again: read its diff.
"""

import copy
import dataclasses
import functools
import os
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tinylm.base import config
from tinylm.base.config import load_params, read_section
from tinylm.report import assignment, render
from tinylm.report.document import write_document
from tinylm.report.settings import ReportSettings
from tinylm.run.finished_run import FinishedRun, read_run

TABLE = Path(__file__).with_name("sources.yaml")
RESULTS = {field.name for field in dataclasses.fields(FinishedRun)} - {
    "params", "tables", "folder", "own_texts", "own_sentences"
}  # fmt: skip
NUMBER = re.compile(r"\d+(?:[,.]\d+)*")
Change = Callable[[str, Any], Any]  # the name and the value of a result -> another value


def with_numbers(part: Any, change: Change, name: str = "") -> Any:
    """A run, or a part of it, with every number changed."""

    def inner(key: Any, value: Any) -> Any:
        return with_numbers(value, change, f"{name}.{key}".lstrip("."))

    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        names = [field.name for field in dataclasses.fields(part)]
        return dataclasses.replace(part, **{key: inner(key, getattr(part, key)) for key in names})
    if isinstance(part, dict):
        return {key: inner(key, value) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return type(part)(inner(key, value) for key, value in enumerate(part))
    is_number = isinstance(part, int | float) and not isinstance(part, bool)
    return change(name, part) if is_number and name.partition(".")[0] in RESULTS else part


def by_name(name: str, value: Any) -> Any:
    """The same number on every machine, nearly always another one for each name."""
    digits = zlib.crc32(name.encode())
    return 100 + digits % 800 if isinstance(value, int) else round(0.1 + digits % 9973 / 12500, 4)


def words(line: str) -> str:
    """The first words of a line or, in a table, of its first cell; the cell itself if it has none."""
    cell = line.strip("| ").split("|")[0].strip()
    return " ".join(re.findall(r"[A-Za-z][\w'-]*", cell)[:6]) or cell[:20]


def by_place(lines: list[str]) -> dict[str, str]:
    """{section and first words: line}; further lines with the same words have a number, too."""
    section = ""
    seen: Counter[str] = Counter()
    placed = {}
    for line in lines:
        if line.startswith("#"):
            section = words(line.lstrip("# "))
        place = f"{section}: {words(line)}"
        seen[place] += 1
        placed[place if seen[place] == 1 else f"{place} ({seen[place]})"] = line
    return placed


def changed_places(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """`place #2` where the second number of a line differs; `place` if its words do."""
    changed = set()
    for place, line in after.items():
        other = before.get(place, "")
        if NUMBER.sub("", other) != NUMBER.sub("", line):
            changed.add(place)
            continue
        pairs = zip(NUMBER.findall(other), NUMBER.findall(line), strict=True)
        changed |= {f"{place} #{number}" for number, (a, b) in enumerate(pairs, 1) if a != b}
    return changed


def sources(run: FinishedRun, settings: ReportSettings) -> dict[str, list[str]]:
    """{a place in the report: the results that it depends on}; under "nowhere", those that no line shows."""

    def lines(shown: FinishedRun) -> dict[str, str]:
        return by_place(write_document(shown, settings, {}).splitlines())

    run = with_numbers(run, by_name)
    before = lines(run)
    names: list[str] = []
    with_numbers(run, lambda name, value: names.append(name) or value)
    found = defaultdict(list)
    for chosen in names:

        def larger(name: str, value: Any, chosen: str = chosen) -> Any:
            if name != chosen:
                return value
            return value + 1000 if isinstance(value, int) else value + 7.7  # shows in any rounding

        after = lines(with_numbers(run, larger))
        for place in changed_places(before, after) or {"nowhere"}:
            found[place].append(chosen)
    return {place: sorted(found[place]) for place in sorted(found)}


def do_what_is_always_the_same_once(run: FinishedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Templates, the assignment and the heads, which come from tables: else each report takes a second."""
    environments: dict[str, Any] = {}
    new_environment = render._Environment

    def environment(**options: Any) -> Any:
        return environments.setdefault("", new_environment(**options))

    heads, roles = run.heads(), run.roles()
    monkeypatch.setattr(render, "_Environment", environment)
    monkeypatch.setattr(assignment, "parse_yaml", functools.cache(config.parse_yaml))
    monkeypatch.setattr(FinishedRun, "heads", lambda self: copy.deepcopy(heads))
    monkeypatch.setattr(FinishedRun, "roles", lambda self: roles.copy())


def test_every_number_of_the_report_comes_from_the_result_of_the_table(finished_run, monkeypatch):
    params = load_params(finished_run / "params.yaml")
    run = read_run(finished_run, params)
    do_what_is_always_the_same_once(run, monkeypatch)
    found = sources(run, read_section(params, "report", ReportSettings))
    if os.environ.get("TINYLM_ACCEPT"):
        text = "# What each place of the report shows. Written by test_sources.py.\n"
        TABLE.write_text(text + yaml.safe_dump(found, width=120), encoding="utf-8")
    expected = yaml.safe_load(TABLE.read_text("utf-8"))
    assert found == expected
