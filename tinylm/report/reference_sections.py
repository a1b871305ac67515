"""Sections on the published systems: their figures beside ours, our studies of their questions, and the ledger."""

import dataclasses
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError
from tinylm.report.blocks import Blocks, fold, heading, joined, paragraph, table
from tinylm.report.library import SYSTEMS, Library, counts, library, read_ledger, recorded_studies
from tinylm.report.references import COLUMNS, Table, headlines, tables
from tinylm.report.sources import Run
from tinylm.report.wording import ABSENT, count, many

AGAIN = "as above"
LIBRARY, STUDIES, ENTRIES = "library", "studies", "ledger"  # names in Run.found


def with_library(run: Run, folder: str | Path) -> Run:
    """The run with what is published and recorded in `folder`; what cannot be read is named in its problems."""
    found, problems = dict(run.found), dict(run.problems)
    try:
        found[LIBRARY] = library(folder)
        found[STUDIES] = recorded_studies(folder)
        found[ENTRIES] = read_ledger(folder)
    except InputError as error:
        problems[ENTRIES] = str(error).splitlines()[0]
    return dataclasses.replace(run, found=found, problems=problems)


def _rows(rows: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The rows, with a last cell that repeats the previous row's replaced by AGAIN."""
    shown: list[tuple[str, ...]] = []
    said = ""
    for *cells, last in rows:
        shown.append((*cells, AGAIN if last == said and last != ABSENT else last))
        said = last
    return shown


def _tables(tables: list[Table]) -> Blocks:
    return joined(
        table(part.title, COLUMNS, _rows(part.rows), prose=COLUMNS[-1:]) for part in tables
    )


def _own(run: Run, known: Library) -> Blocks:
    system = run.param("report", "compare")
    if system not in SYSTEMS:
        return []
    note = "A dash stands where a figure was not printed, or not measured in this run."
    kind = known.published[system].kind
    return (
        heading(f"This run beside the {kind}")
        + paragraph(note)
        + _tables(tables(system, known, run))
    )


def _recorded(known: Library) -> Blocks:
    heads = ("source", *COLUMNS)
    board = table(
        "Headline figures of the five",
        heads,
        _rows(headlines(known)),
        prose=("source", *COLUMNS[::3]),
    )
    parts: Blocks = []
    missing = known.unrecorded()
    for system in SYSTEMS:
        theirs = known.published[system]
        if theirs.preset not in missing:
            parts += fold(
                f"{theirs.kind}, beside preset {theirs.preset}", _tables(tables(system, known))
            )
    note = f"Not recorded yet: {', '.join(missing)}." if missing else ""
    return (
        heading("The published systems beside our recorded runs")
        + paragraph(
            "Ours is the mean over seeds, ± the standard deviation where there are several.", note
        )
        + board
        + parts
    )


def _study_rows(settings: Mapping[str, Any]) -> Iterable[tuple[str, ...]]:
    for name, row in settings.items():
        mean, spread = row["mean"], row["spread"]

        def cell(key: str, form: str, mean: dict = mean, spread: dict = spread) -> str:
            if key not in mean:
                return ABSENT
            return f"{mean[key]:{form}}" + (f" ± {spread[key]:{form}}" if key in spread else "")

        said = "diverged" if mean.get("diverged") else row.get("beside_first", {}).get("says")
        figures = (
            cell("held_out_loss", ".3f"),
            cell("held_out_perplexity", ".2f"),
            cell("train_loss", ".3f"),
        )
        updates, tokens = count(mean.get("updates")), count(mean.get("tokens"))
        yield name, count(len(row["runs"])), *figures, updates, tokens, said or ABSENT


def studies(run: Run) -> Blocks:
    """Every recorded study as a table, with its question, the published answer and the command."""
    known = run.found.get(LIBRARY)
    heads = (
        "setting",
        "seeds",
        "held-out loss",
        "perplexity",
        "train loss",
        "updates",
        "tokens",
        "beside the first",
    )
    parts: Blocks = []
    for name, study in run.mapping(STUDIES).items():
        answer, system = study.get("answer"), study.get("system")
        said = (
            f"Answer of the {known.published[system].kind}: {answer}."
            if known and answer and system
            else ""
        )
        measured = study["conditions"]
        how = (
            f"Preset {study['preset']}, {many(len(study['seeds']), 'seed')}, on {measured['cores']} cores with "
            f"{many(measured['threads'], 'thread')}, {study['date']}: {study['commands'][-1]}."
        )
        parts += table(f"Study {name}: {study['question']}", heads, _study_rows(study["settings"]))
        parts += paragraph(said, how, kind="note")
    return heading("Questions asked with several settings") + parts if parts else []


def published(run: Run) -> Blocks:
    """This run beside the system that it follows, all five systems beside our recorded runs, and the studies."""
    known = run.found.get(LIBRARY)
    return _own(run, known) + _recorded(known) + studies(run) if known else []


def ledger(run: Run) -> Blocks:
    """Claims with status, evidence and the command that produces it, by source."""
    entries = run.found.get(ENTRIES) or []
    if not entries:
        return []
    note = (
        f"{many(len(entries), 'claim')} of the published systems: {counts(entries)}. Every status follows from a rule "
        "over recorded and published figures (docs/ledger.yaml), every number in the evidence is read from them."
    )
    heads = ("claim", "status", "evidence", "made by")
    parts = joined(
        table(
            f"Claims of the {kind}",
            heads,
            _rows(
                (entry.claim, entry.status, entry.evidence or ABSENT, entry.command)
                for entry in group
            ),
            prose=heads,
            stacked=True,
        )
        for kind, group in groupby(entries, key=lambda entry: entry.kind)
    )
    return paragraph(note) + parts
