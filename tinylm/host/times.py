"""Times, memory and conditions of a stage: what differs between equal runs.

DVC does not track these files, so that a repeated run leaves no difference in dvc.lock. Each names
the result that it was measured with by a SHA-256, and is ignored together with any other result.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tinylm.base import paths
from tinylm.base.code import PIPELINE, ROOT
from tinylm.base.config import PARAMS_FILE, InputError, load_params
from tinylm.base.files import read_json, sha256, write_csv, write_json

RESULT = "result_sha256"
Tables = Mapping[str, Sequence[Sequence[object]]]


def _result_sha256(stage: str, result: str, folder: Path) -> str:
    """SHA-256 of the file `result`, the stage's sections of params.yaml and the model it reads.

    The result alone is not enough: equal texts may come from models of any width.
    """
    entry = load_params(ROOT / PIPELINE)["stages"][stage]
    params = load_params(folder / PARAMS_FILE)
    parts: list[Any] = [sha256(folder / result)]
    parts += [params.get(name) for name in entry.get("params", ())]
    model = folder / paths.MODEL_CONFIG
    if paths.MODELS in entry["deps"] and model.exists():
        parts.append(sha256(model))
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


def write_times(
    name: str, stage: str, result: str, metrics: Mapping[str, Any], tables: Tables | None = None
) -> None:
    """Write metrics/NAME_time.json for what `stage` wrote into the file `result`.

    tables: {path: rows with their header first}, to be plotted.
    """
    write_json(paths.times(name), {**metrics, RESULT: _result_sha256(stage, result, Path())})
    for path, (header, *rows) in (tables or {}).items():
        write_csv(path, [str(cell) for cell in header], rows)


def read_times(
    name: str, stage: str, result: str, folder: str | Path = "."
) -> dict[str, Any] | None:
    """The times of the present result below `folder`; None if it was not measured here.

    Raises InputError if the file is damaged.
    """
    path = Path(folder) / paths.times(name)
    if not path.exists() or not (Path(folder) / result).exists():
        return None
    metrics = read_json(path, stage)
    if not isinstance(metrics, dict):
        raise InputError(f"{path}: holds no times; remove it and run dvc repro -f -s {stage}")
    measured = metrics.pop(RESULT, None)
    return metrics if measured == _result_sha256(stage, result, Path(folder)) else None
