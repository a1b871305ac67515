"""The published systems compared with our recorded runs, as Markdown or as a PDF.

Without an option the headline table of docs/reference/results.md is printed. `--write FOLDER` writes published.md and
published.pdf: every table of comparison.yaml, the studies, and the ledger. Nothing is written if a number does not
stand in the record that it names.
"""

import json
import math
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from studies.ledger import counts, in_words
from studies.records import FOLDER, SYSTEMS, Record, published, read, wrong_numbers
from tinylm.base.files import read_json, write_bytes
from tinylm.evaluate.differences import Difference, seed_error
from tinylm.evaluate.statistics import claims
from tinylm.host.command import CommandFailed, Parser, guard

COLUMNS = ("quantity", "published", "tinylm", "what differs")
STUDY_COLUMNS = ("setting", "seeds", "validation loss", "perplexity", "compared with the first")
PAGE = "published.md"
PAPER = "published.pdf"
NOTE = "tinylm: mean over seeds, ± the standard deviation where several seeds are recorded."
LONG_CELL = 40  # characters
_TYPST_HEAD = (
    '#set page(flipped: true, margin: 1.5cm)\n#set text(size: 8pt, font: "Libertinus Serif")\n'
)

Row = Sequence[str]


@dataclass(frozen=True)
class Section:
    """A heading, a paragraph that may be empty, and a table that may have no rows."""

    title: str
    text: str = ""
    columns: Row = ()
    rows: Sequence[Row] = ()
    level: int = 2


def _cells(row: Record) -> Row:
    return (row["quantity"], row["published"], row["ours"], row["differs"])


def headlines() -> Section:
    """The rows of comparison.yaml that are marked as headlines."""
    systems = published()
    rows = [
        (systems[system]["kind"], *_cells(row))
        for system, tables in read("comparison.yaml").items()
        for table in tables
        for row in table["rows"]
        if row.get("headline")
    ]
    for number in range(len(rows) - 1, 0, -1):
        if rows[number][-1] == rows[number - 1][-1] != "none":
            rows[number] = (*rows[number][:-1], "as above")
    return Section("Headline results", NOTE, ("source", *COLUMNS), rows)


def _systems() -> Iterator[Section]:
    systems = published()
    comparison = read("comparison.yaml")
    for system in SYSTEMS:
        kind, preset = systems[system]["kind"], systems[system]["preset"]
        yield Section(f"{kind}, compared with preset {preset}")
        for table in comparison[system]:
            rows = [_cells(row) for row in table["rows"]]
            yield Section(table["title"], "", COLUMNS, rows, level=3)


def _with_spread(row: Record, name: str, digits: int) -> str:
    if name not in row["mean"]:
        return "–"
    spread = f" ± {row['spread'][name]:.{digits}f}" if name in row["spread"] else ""
    return f"{row['mean'][name]:.{digits}f}{spread}"


def _losses(by_seed: dict[str, Record]) -> dict[int, float]:
    """Validation loss by seed, of the runs that did not diverge."""
    learned = {seed: run for seed, run in by_seed.items() if not run["diverged"]}
    return {int(seed): run["held_out_loss"] for seed, run in learned.items()}


def compared_with_first(runs: dict[str, dict[str, Record]]) -> dict[str, Record]:
    """For each later setting: its validation loss minus the first's, p and what may be claimed.

    All runs are scored on the same batches: other stories are not accounted for.
    """
    losses = {setting: _losses(by_seed) for setting, by_seed in runs.items()}
    first, *others = losses
    differences = {}
    for setting in others:
        if losses[first] and losses[setting]:
            one, other = (statistics.fmean(losses[side].values()) for side in (first, setting))
            error = seed_error(losses[first], losses[setting])
            half = error.bound if error else math.inf
            ends = other - one - half, other - one + half
            differences[setting] = Difference(one, other, *ends, count=0, error=0.0, seeds=error)
    compared = {}
    for setting, claim in claims(differences).items():
        says = claim.in_words("worse", "better")
        compared[setting] = {"difference": differences[setting].value, "p": claim.p, "says": says}
    return compared


def _study_row(name: str, row: Record, says: str) -> Row:
    verdict = "diverged" if row["mean"].get("diverged") else says
    loss = _with_spread(row, "held_out_loss", 3)
    perplexity = _with_spread(row, "held_out_perplexity", 2)
    return (name, str(len(row["runs"])), loss, perplexity, verdict)


def study_section(study: Record) -> Section:
    """The result of a study."""
    answer = f" Published answer: {study['answer']}." if study.get("answer") else ""
    runs = {name: row["runs"] for name, row in study["settings"].items()}
    compared = compared_with_first(runs)
    rows = []
    for name, row in study["settings"].items():
        rows.append(_study_row(name, row, compared.get(name, {}).get("says", "–")))
    text = f"Preset {study['preset']}, {study['date']}.{answer}"
    title = f"Study {study['name']}: {study['question']}"
    return Section(title, text, STUDY_COLUMNS, rows, level=3)


def _studies() -> Iterator[Section]:
    yield Section("Questions asked with several settings")
    for path in sorted((FOLDER / "results").glob("*.json")):
        yield study_section(read_json(path))


def _ledger() -> Section:
    entries = read("ledger.yaml")
    rows = [
        (in_words(entry), entry["verdict"], entry.get("evidence", "–"))
        for entry in entries.values()
    ]
    text = f"{len(entries)} claims: {counts(entries)}."
    return Section("Claims of the published systems", text, ("claim", "verdict", "evidence"), rows)


def sections() -> list[Section]:
    """All sections. Raises CommandFailed if a number does not stand in the record that it names."""
    tables = [table for tables in read("comparison.yaml").values() for table in tables]
    entries = [row for table in tables for row in table["rows"]] + list(
        read("ledger.yaml").values()
    )
    wrong = [line for entry in entries for line in wrong_numbers(entry)]
    if wrong:
        raise CommandFailed("\n".join(wrong))
    return [headlines(), *_systems(), *_studies(), _ledger()]


def table_lines(section: Section) -> list[str]:
    """The table as Markdown."""
    rows = [section.columns, ["---"] * len(section.columns), *section.rows]
    return [f"| {' | '.join(row)} |" for row in rows]


def markdown(parts: Sequence[Section]) -> str:
    """All sections as a Markdown page."""
    lines = ["# Published systems compared with tinylm", ""]
    for part in parts:
        lines += [f"{'#' * part.level} {part.title}", ""]
        if part.text:
            lines += [part.text, ""]
        if part.rows:
            lines += [*table_lines(part), ""]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """A Typst expression that shows the text as it is."""
    return f"[#{json.dumps(text, ensure_ascii=False)}]"


def _typst_table(section: Section) -> str:
    """A table in which columns with a long cell share the width that the others leave."""
    rows = [section.columns, *section.rows]
    longest = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths = ["1fr" if length > LONG_CELL else "auto" for length in longest]
    cells = [_quoted(cell) for row in rows for cell in row]
    return f"#table(columns: ({', '.join(widths)}), {', '.join(cells)})"


def typst_source(parts: Sequence[Section]) -> str:
    """All sections as the source of a PDF."""
    lines = [_TYPST_HEAD]
    for part in parts:
        lines.append(f"#heading(level: {part.level - 1}, {_quoted(part.title)})")
        if part.text:
            lines.append(f"#par({_quoted(part.text)})")
        if part.rows:
            lines.append(_typst_table(part))
    return "\n".join(lines)


def write(folder: Path) -> None:
    """Write published.md and published.pdf. Raises CommandFailed as `sections` does."""
    import typst

    parts = sections()
    write_bytes(folder / PAGE, markdown(parts).encode())
    write_bytes(folder / PAPER, typst.compile(typst_source(parts).encode()))
    print(f"{folder / PAGE}, {folder / PAPER}")


def main() -> None:
    parser = Parser(prog="python -m studies.published", description=__doc__)
    parser.add_argument("--write", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    if arguments.write is not None:
        write(arguments.write)
    else:
        print("\n".join(table_lines(headlines())))


if __name__ == "__main__":
    sys.exit(guard(main))
