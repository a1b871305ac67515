"""The results of `make bench`: rows with goals and verdicts, one JSON file, one Markdown table."""

import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError
from tinylm.base.files import atomic_write, read_json, write_json
from tinylm.host.runtime import in_words

RESULTS = ("<!-- results: written by make bench -->", "<!-- end of results -->")
GROWTH = ("<!-- growth: written by make growth -->", "<!-- end of growth -->")
PLAN = (
    "<!-- plan: written by python -m benchmarks.planning --write -->",
    "<!-- end of plan -->",
)
HEAD = (
    "| Line | What | tinylm | Beside it | Figure | Must / stretch | Reached |",
    "|---|---|---|---|---|---|---|",
)


@dataclasses.dataclass(frozen=True)
class Row:
    """One figure of a line.

    ours, peer: {median, low, high, turns (how many trials)} in `unit`; figure: what the goal is about (a ratio, or our
    own median); must, stretch: the goals, None if there is none; higher: whether more is better; note: what a reader
    must know (share of changed tokens, what is extrapolated); part: which part of a line that can be run in parts.
    """

    what: str
    unit: str
    ours: Mapping[str, float] | None
    peer: Mapping[str, float] | None = None
    peer_name: str = ""
    figure: float | None = None
    figure_unit: str = "x"
    must: float | None = None
    stretch: float | None = None
    higher: bool = True
    note: str = ""
    part: float | None = None

    def reached(self) -> str:
        """stretch | must | no | not the stretch (if that is the only goal); empty without a goal."""
        if self.must is None and self.stretch is None:
            return ""
        if self.figure is None:
            return "no"
        sign = 1.0 if self.higher else -1.0
        if self.stretch is not None and sign * self.figure >= sign * self.stretch:
            return "stretch"
        if self.must is None:
            return "not the stretch"
        return "must" if sign * self.figure >= sign * self.must else "no"


def against(
    what: str,
    unit: str,
    ours: Mapping[str, float],
    peer: Mapping[str, float],
    peer_name: str,
    **goal: Any,
) -> Row:
    """A row whose figure is our median over the peer's."""
    return Row(what, unit, ours, peer, peer_name, ours["median"] / peer["median"], **goal)


def best(rates: Mapping[str, Mapping[str, float]], prefix: str) -> str:
    """The fastest contender whose name begins with the prefix; "" if none does."""
    names = (name for name in rates if name.startswith(prefix))
    return max(names, key=lambda name: rates[name]["median"], default="")


def load(path: Path) -> dict[str, Any]:
    """The results so far, by line; empty if there are none."""
    return read_json(path) if path.exists() else {}


def keep(
    path: Path, line: str, rows: Sequence[Row], conditions: Mapping[str, Any]
) -> dict[str, Any]:
    """Replace a line's earlier rows by new ones; other lines, and other parts, are kept. Returns all results."""
    results = load(path)
    shown = [dataclasses.asdict(row) | {"reached": row.reached()} for row in rows]
    parts = {row.part for row in rows}
    earlier = results.get(line, {}).get("rows", [])
    shown += [row for row in earlier if row.get("part") is not None and row["part"] not in parts]
    shown.sort(key=lambda row: row["part"] or 0.0)
    results[line] = {"rows": shown, "conditions": dict(conditions)}
    write_json(path, results)
    return results


def load_average() -> float:
    """Mean number of runnable processes in the last minute: what else the machine was doing."""
    return round(os.getloadavg()[0], 2)


def stamp() -> str:
    return time.strftime("%Y-%m-%d %H:%M")


def number(value: float | None) -> str:
    """Three significant digits, or all digits before the point; thousands separated."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _spread(figures: Mapping[str, float] | None, unit: str) -> str:
    if figures is None:
        return "–"
    low, high = number(figures["low"]), number(figures["high"])
    around = "" if low == high else f" ({low}–{high})"
    return f"{number(figures['median'])}{around} {unit}"


def _cells(line: str, row: Mapping[str, Any]) -> str:
    goal = (
        f"{number(row['must'])} / {number(row['stretch'])}"
        if row["must"] or row["stretch"]
        else "–"
    )
    figure = "–" if row["figure"] is None else f"{number(row['figure'])} {row['figure_unit']}"
    peer = (
        "–" if row["peer"] is None else f"{row['peer_name']}: {_spread(row['peer'], row['unit'])}"
    )
    what = row["what"] + (f"; {row['note']}" if row["note"] else "")
    return f"| {line} | {what} | {_spread(row['ours'], row['unit'])} | {peer} | {figure} | {goal} | {row['reached']} |"


def table(results: Mapping[str, Any], order: Sequence[str]) -> str:
    """All results as Markdown: the table, then each line's conditions."""
    lines = [line for line in order if line in results]
    rows = [_cells(line, row) for line in lines for row in results[line]["rows"]]
    notes = [f"- `{line}`: {in_words(results[line]['conditions'])}" for line in lines]
    return "\n".join([*HEAD, *rows, "", "Conditions of each line, as it printed them:", "", *notes])


def check_marks(page: Path, marks: tuple[str, str]) -> str:
    """The text of a Markdown page that has both marks. Raises InputError."""
    try:
        text = page.read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError):
        text = ""
    if not all(mark in text for mark in marks):
        raise InputError(f"{page}: no lines {marks[0]!r} and {marks[1]!r} to write between")
    return text


def put(page: Path, marks: tuple[str, str], text: str) -> None:
    """Put a text between two marks of a Markdown page. Raises InputError if the marks are missing."""
    start, end = marks
    old = check_marks(page, marks)
    before, _, rest = old.partition(start)
    with atomic_write(page) as handle:
        handle.write(f"{before}{start}\n{text}\n{end}{rest.partition(end)[2]}")
