"""Reference tables: what the published systems print beside what ours gave, row by row with what differs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinylm.base.config import load_params
from tinylm.reporting.expressions import evaluate, fill
from tinylm.reporting.ledger import names_for
from tinylm.reporting.library import SYSTEMS, library
from tinylm.reporting.recording import of_run
from tinylm.reporting.seeds import BadExpression, Missing, Seeds, number, spread
from tinylm.reporting.sources import Run
from tinylm.reporting.wording import ABSENT, MINUS

SPECS = Path(__file__).with_name("references.yaml")
COLUMNS = ("figure", "published", "ours", "what differs")

Names = Mapping[str, Any]


@dataclass(frozen=True)
class ReferenceRow:
    """One figure: as published, as ours (mean ± standard deviation where several seeds are recorded)."""

    figure: str
    theirs: str
    ours: str
    differs: str
    headline: bool

    def cells(self) -> tuple[str, str, str, str]:
        """In the order of COLUMNS."""
        return self.figure, self.theirs, self.ours, self.differs


@dataclass(frozen=True)
class ReferenceTable:
    """The rows of one table of a system; `kind` names the source as it is cited."""

    system: str
    kind: str
    title: str
    rows: tuple[ReferenceRow, ...]


def shown(expression: str | None, form: str, names: Names) -> str:
    """A figure with its spread over seeds, a dash where it is not known."""
    if expression is None:
        return ABSENT
    try:
        value = evaluate(expression, names)
    except Missing:
        return ABSENT
    whole = form.endswith("d")
    text = format(round(number(value)) if whole else number(value), form)
    if isinstance(value, Seeds) and len(set(value.values)) > 1:
        text += f" ± {format(spread(value), form.lstrip('+').replace('d', '.1f'))}"
    return text.replace("-", MINUS, 1) if text.startswith("-") else text.replace("e-0", "e-")


def _text(template: str, names: Names) -> str:
    try:
        return fill(template, names)
    except Missing:
        return ABSENT


def _items(each: Any, names: Names) -> list[Names]:
    if each is None:
        return [names]
    try:
        found = evaluate(each, names) if isinstance(each, str) else each
    except Missing:
        return []
    return [{**names, "item": item} for item in found]


def _rows(spec: dict[str, Any], names: Names) -> Iterator[ReferenceRow]:
    for row in spec["rows"]:
        for inner in _items(row.get("each"), names):
            found = ReferenceRow(
                fill(row["figure"], inner),
                shown(row.get("theirs"), row["form"], inner),
                shown(row.get("ours"), row["form"], inner),
                _text(row.get("differs", spec["differs"]), inner),
                row.get("headline", False),
            )
            if (found.theirs, found.ours) != (ABSENT, ABSENT):
                yield found


def _tables(system: str, names: Names) -> list[ReferenceTable]:
    kind = names["theirs"]["kind"]
    try:
        return [
            ReferenceTable(system, kind, spec["title"], tuple(_rows(spec, names)))
            for spec in load_params(SPECS)[system]
        ]
    except BadExpression as error:
        raise BadExpression(f"{SPECS.name}: {system}: {error}") from None


def recorded_tables(system: str, known: Names) -> list[ReferenceTable]:
    """A system beside our recorded run of its preset; `known` as `library.library` gives it."""
    return _tables(system, names_for(system, known))


def run_tables(run: Run, known: Names) -> list[ReferenceTable]:
    """The system that `report.compare` names beside the run of this folder; none for `none`."""
    system = run.param("report", "compare")
    if system not in SYSTEMS:
        return []
    return _tables(system, {**names_for(system, known), "ours": of_run(run)})


def headlines(known: Names) -> list[tuple[str, ReferenceRow]]:
    """(kind of source, row) of every headline of the five systems."""
    tables = [table for system in SYSTEMS for table in recorded_tables(system, known)]
    return [(table.kind, row) for table in tables for row in table.rows if row.headline]


def results_table(folder: str | Path = ".") -> str:
    """README's table of results as markdown, out of published.yaml, docs/runs and docs/studies."""
    heads = ("source", *COLUMNS)
    lines = [heads, ("---",) * len(heads), *((kind, *row.cells()) for kind, row in headlines(library(folder)))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
