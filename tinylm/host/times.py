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

TABLES = "tables"  # key of the plotted tables: path -> header and rows
Tables = Mapping[str, Sequence[Sequence[object]]]


def _sections(stage: str, params: dict[str, Any]) -> list[str]:
    """The sections of params.yaml that dvc.yaml names for a stage; all of them if it does not have the stage."""
    path = ROOT / "dvc.yaml"
    stages = load_params(path).get("stages") if path.exists() else None
    entry = stages.get(stage) if isinstance(stages, dict) else None
    named = entry.get("params") if isinstance(entry, dict) else None
    return [name for name in named if isinstance(name, str)] if isinstance(named, list) else sorted(params)


def result_sha256(stage: str, made: str, folder: str | Path = ".") -> str:
    """SHA-256 of a result below `folder`: of the file `made`, and of parameters and code of the stage that made it."""
    params = load_params(Path(folder) / PARAMS_FILE)
    parts = [sha256(Path(folder) / made), {name: params.get(name) for name in _sections(stage, params)}]
    text = json.dumps([*parts, code_sha256(f"stages/{stage}.py")], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _kept(name: str, stage: str, made: str, folder: str | Path = ".") -> Path:
    return Path(folder) / paths.TIMES / name / f"{result_sha256(stage, made, folder)[:16]}.json"


def write_times(name: str, stage: str, made: str, figures: dict[str, Any], tables: Tables | None = None) -> None:
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
    found = None
    with contextlib.suppress(InputError):
        found = _read(name, stage, made, ".")
    if found is None:
        discard(paths.times(name), *tables)
    else:
        _show(name, *found)


def read_times(name: str, stage: str, made: str, folder: str | Path = ".") -> dict[str, Any] | None:
    """The times of the present result below `folder`; None if it was not measured here. InputError if damaged."""
    found = _read(name, stage, made, folder)
    return None if found is None else found[0]


def _read(name: str, stage: str, made: str, folder: str | Path) -> tuple[dict[str, Any], Tables] | None:
    if not (Path(folder) / made).exists() or not (path := _kept(name, stage, made, folder)).exists():
        return None
    found = read_json(path, stage)
    if not isinstance(found, dict) or not isinstance(tables := found.pop(TABLES, None), dict):
        raise InputError(f"{path}: holds no times; remove it and run dvc repro -f -s {stage}")
    return found, tables


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
