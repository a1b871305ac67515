"""What differs between equal runs: seconds, memory, conditions, and the plots of them. Kept on this machine.

DVC does not know these files, so that a repeated run leaves no difference in dvc.lock. Each is kept in runs/times by
the result that it was measured with: when DVC brings an earlier result back from its cache, its times come back too.
metrics/NAME_time.json and plots/*_time.csv are copies of those of the present result.
"""

import contextlib
import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tinylm.base import paths
from tinylm.base.closure import ROOT, code_sha256
from tinylm.base.config import PARAMS_FILE, InputError, load_params
from tinylm.base.files import discard, read_json, sha256, write_csv, write_json
from tinylm.host.memory import peak_figures
from tinylm.host.stage_inputs import made_before, sections

TABLES = "tables"  # key of the plotted tables: path -> header and rows
Tables = Mapping[str, Sequence[Sequence[object]]]


def result_sha256(stage: str, made: str, folder: str | Path = ".") -> str:
    """SHA-256 of a result below `folder`: the file `made`; parameters, code and data of the stage that made it."""
    here = Path(folder)
    given = sections(stage, load_params(here / PARAMS_FILE), ROOT)
    parts = [sha256(here / made), given, made_before(stage, ROOT, here)]
    text = json.dumps([*parts, code_sha256(f"stages/{stage}.py")], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _kept(name: str, stage: str, made: str, folder: str | Path = ".") -> Path:
    return Path(folder) / paths.TIMES / name / f"{result_sha256(stage, made, folder)[:16]}.json"


def write_times(
    name: str, stage: str, made: str, figures: dict[str, Any], tables: Tables | None = None
) -> None:
    """Write the times of what `stage` wrote into the file `made`: metrics/NAME_time.json and the tables to plot."""
    write_json(_kept(name, stage, made), {**figures, TABLES: tables or {}})
    _show(name, figures, tables or {})


def _show(name: str, figures: dict[str, Any], tables: Tables) -> None:
    write_json(paths.times(name), figures)
    for path, (header, *rows) in tables.items():
        write_csv(path, [str(cell) for cell in header], rows)


def show_times(name: str, stage: str, made: str, tables: Iterable[str] = ()) -> None:
    """Make metrics/NAME_time.json and the tables those of the present result.

    They are removed if it was not measured here, or if what was kept is damaged, which `read_times` then names.
    """
    found, own = None, set(tables)
    with contextlib.suppress(InputError):
        found = _read(name, stage, made, ".")
    if found is None or not found[1].keys() <= own:
        discard(paths.times(name), *own)
    else:
        _show(name, *found)


def read_times(name: str, stage: str, made: str, folder: str | Path = ".") -> dict[str, Any] | None:
    """The times of the present result below `folder`; None if it was not measured here. InputError if damaged."""
    found = _read(name, stage, made, folder)
    return None if found is None else found[0]


def _read(
    name: str, stage: str, made: str, folder: str | Path
) -> tuple[dict[str, Any], Tables] | None:
    if (
        not (Path(folder) / made).exists()
        or not (path := _kept(name, stage, made, folder)).exists()
    ):
        return None
    found = read_json(path, stage) if path.is_file() else None
    if not isinstance(found, dict) or not _are_tables(tables := found.pop(TABLES, None)):
        raise InputError(f"{path}: holds no times; remove it and run dvc repro -f -s {stage}")
    return found, tables


def _are_tables(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(rows, list) and rows and all(isinstance(row, list) for row in rows)
        for rows in value.values()
    )


def stage_time(
    name: str,
    start: float,
    conditions: dict[str, Any],
    figures: Mapping[str, Any] | None = None,
    tables: Tables | None = None,
) -> None:
    """Write a stage's times: seconds since `start` (time.perf_counter), peak memory, figures, conditions, tables."""
    seconds = round(time.perf_counter() - start, 3)
    known = {"seconds": seconds, **peak_figures(), **(figures or {}), "conditions": conditions}
    write_times(name, name, paths.figures(name), known, tables)
