"""Which result each number in the report, the model card and the lab shows.

sources.yaml lists, for each number in the report, the results that it depends on. If a template uses the wrong one of two
similar results, the test fails. After changing a page, run `TINYLM_ACCEPT=1 pytest tests/report/test_sources.py`, which
rewrites the files, and read the diff. sources_elsewhere.yaml is for the card and the lab.
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

import numpy as np
import pandas as pd
import pytest
import yaml

from tinylm.base import config
from tinylm.base.config import load_params, read_section
from tinylm.exchange.card import DataLicence, Publication, write_card
from tinylm.lab.making import facts
from tinylm.report import assignment, render
from tinylm.report.document import write_document
from tinylm.report.settings import ReportSettings
from tinylm.run.finished_run import FinishedRun, read_run
from tinylm.run.trained_model import load_trained

OF_REPORT = Path(__file__).with_name("sources.yaml")
OF_OTHERS = Path(__file__).with_name("sources_elsewhere.yaml")
RESULTS = {field.name for field in dataclasses.fields(FinishedRun)} - {
    "params", "folder", "own_texts", "own_sentences"
}  # fmt: skip
# Tables whose numbers the pages print, and what tells their rows apart; other tables become pictures or texts.
TABLES_OF_HEADS = {"tables.roles": ["layer", "head", "role"], "tables.ablation": ["layer", "head"]}
NUMBER = re.compile(r"\d+(?:[,.]\d+)*")
Change = Callable[[str, Any], Any]  # the name and the value of a result -> another value


def with_numbers(part: Any, change: Change, name: str = "") -> Any:
    """A run, or a part of it, with every number changed; of tables, the floats of TABLES_OF_HEADS."""

    def inner(key: Any, value: Any) -> Any:
        return with_numbers(value, change, f"{name}.{key}".lstrip("."))

    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        names = [field.name for field in dataclasses.fields(part)]
        return dataclasses.replace(part, **{key: inner(key, getattr(part, key)) for key in names})
    if isinstance(part, dict):
        return {key: inner(key, value) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return type(part)(inner(key, value) for key, value in enumerate(part))
    if isinstance(part, pd.DataFrame):
        return with_cells(part, inner, TABLES_OF_HEADS[name]) if name in TABLES_OF_HEADS else part
    is_number = isinstance(part, int | float) and not isinstance(part, bool)
    is_setting = ".sections." in name  # which a stage read, and did not measure
    is_result = is_number and name.partition(".")[0] in RESULTS and not is_setting
    return change(name, part) if is_result else part


def with_cells(table: pd.DataFrame, inner: Change, ids: list[str]) -> pd.DataFrame:
    """A table with every float changed; `inner` is given column and row, such as "score.1.2.induction"."""
    rows = ["." + ".".join(map(str, row)) for row in table[ids].itertuples(index=False)]
    changed = {}
    for column in table.select_dtypes("float"):
        cells = zip(rows, table[column], strict=True)
        changed[column] = [inner(f"{column}{row}", float(cell)) for row, cell in cells]
    return table.assign(**changed)


def by_name(name: str, value: Any) -> Any:
    """A number that depends on the name alone: the same on every machine, and nearly always another for each name."""
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


def with_known_heads(run: FinishedRun) -> FinishedRun:
    """A run whose heads attend to drawn tokens and have every third role: the same on every machine."""
    rng = np.random.default_rng(1)
    roles = run.tables.frame("roles")
    roles["claimed"] = [row % 3 == 0 for row in range(len(roles))]
    sentences = [
        dataclasses.replace(sentence, maps=rng.random(sentence.maps.shape), next="end")
        for sentence in run.sentences
    ]
    tables = dataclasses.replace(run.tables, roles=roles, attention=sentences)
    return dataclasses.replace(run, tables=tables)


Write = Callable[[FinishedRun], str]


def sources(run: FinishedRun, write: Write) -> dict[str, list[str]]:
    """{a place on the page: the results that it depends on}; under "nowhere", those that no line shows."""

    def lines(shown: FinishedRun) -> dict[str, str]:
        return by_place(write(shown).splitlines())

    run = with_numbers(with_known_heads(run), by_name)
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


def once(method: Callable[[FinishedRun], Any]) -> Callable[[FinishedRun], Any]:
    """The method, computed once for each content of the tables of heads."""
    known: dict[str, Any] = {}

    def method_once(run: FinishedRun) -> Any:
        tables = "".join(
            run.tables.frame(name.partition(".")[2]).to_csv() for name in TABLES_OF_HEADS
        )
        if tables not in known:
            known[tables] = method(run)
        return copy.deepcopy(known[tables])

    return method_once


def do_what_is_always_the_same_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cache templates, assignment and heads; otherwise each report takes a second."""
    environments: dict[str, Any] = {}
    new_environment = render._Environment

    def environment(**options: Any) -> Any:
        return environments.setdefault("", new_environment(**options))

    monkeypatch.setattr(render, "_Environment", environment)
    monkeypatch.setattr(assignment, "parse_yaml", functools.cache(config.parse_yaml))
    for name in ("heads", "roles"):
        monkeypatch.setattr(FinishedRun, name, once(getattr(FinishedRun, name)))


def expected_in(table: Path, found: dict[str, Any]) -> Any:
    """The table as expected; with TINYLM_ACCEPT, `found` is written to it first."""
    if os.environ.get("TINYLM_ACCEPT"):
        text = "# The results that each place on a page shows. Written by test_sources.py.\n"
        table.write_text(text + yaml.safe_dump(found, width=120), encoding="utf-8")
    return yaml.safe_load(table.read_text("utf-8"))


def test_every_number_of_the_report_comes_from_the_result_of_the_table(finished_run, monkeypatch):
    params = load_params(finished_run / "params.yaml")
    settings = read_section(params, "report", ReportSettings)
    do_what_is_always_the_same_once(monkeypatch)
    run = read_run(finished_run, params)
    found = sources(run, lambda shown: write_document(shown, settings, {}))
    assert found == expected_in(OF_REPORT, found)


def test_every_number_of_card_and_lab_comes_from_the_result_of_the_table(finished_run, monkeypatch):
    params = load_params(finished_run / "params.yaml")
    do_what_is_always_the_same_once(monkeypatch)
    of_model = ("download", "vocab", "train", "evaluate")
    run = read_run(finished_run, params, stages=of_model)
    trained = load_trained(finished_run / "models", params)
    publication = Publication(
        "me/stories", "transformers", DataLicence("stories", "mit"), None, "0", ()
    )

    def lab(shown: FinishedRun) -> str:
        page = facts(trained.model, trained.tokenizer, trained.decode, shown, "title")
        heads = [
            f"head {name} {key}: {value}"
            for name, head in page["heads"].items()
            for key, value in head.items()
        ]
        return "\n".join([page["about"], *heads])

    found = {
        "card": sources(run, lambda shown: write_card(shown, publication)),
        "lab": sources(run, lab),
    }
    for places in found.values():
        del places["nowhere"]  # most results are on neither page
    assert found == expected_in(OF_OTHERS, found)
