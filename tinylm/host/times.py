"""What differs between equal runs: seconds, memory, conditions. Kept on this machine, in metrics/*_time.json.

DVC does not know these files, so that a repeated run leaves no difference in dvc.lock. Each says to which result it
belongs: DVC may have restored another one from its cache since.
"""

import hashlib
import json
import time
from pathlib import Path
from typing import Any

from tinylm.base import paths
from tinylm.base.closure import ROOT, code_sha256
from tinylm.base.config import PARAMS_FILE, load_params
from tinylm.base.files import read_json, sha256, write_json
from tinylm.host.memory import peak_figures

OF = "of"  # the key of the result's SHA-256


def result_sha256(stage: str, made: str, folder: str | Path = ".") -> str:
    """SHA-256 of a result below `folder`: of the file `made`, and of parameters and code of the stage that made it."""
    sections = load_params(ROOT / "dvc.yaml")["stages"][stage]["params"]
    params = load_params(Path(folder) / PARAMS_FILE)
    parts = [sha256(Path(folder) / made), {name: params.get(name) for name in sections}]
    text = json.dumps([*parts, code_sha256(f"stages/{stage}.py")], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def write_times(name: str, stage: str, made: str, figures: dict[str, Any]) -> None:
    """Write metrics/NAME_time.json, which belongs to what `stage` wrote into the file `made`."""
    write_json(paths.times(name), {**figures, OF: result_sha256(stage, made)})


def read_times(name: str, stage: str, made: str, folder: str | Path = ".") -> dict[str, Any] | None:
    """The figures of metrics/NAME_time.json; None if there are none, or those of another result.

    Raises InputError if the file is damaged.
    """
    path = Path(folder) / paths.times(name)
    if not path.exists() or not (Path(folder) / made).exists():
        return None
    found = read_json(path, f"-f {stage}")
    is_of_this = isinstance(found, dict) and found.pop(OF, None) == result_sha256(stage, made, folder)
    return found if is_of_this else None


def stage_time(name: str, start: float, conditions: dict[str, Any], **figures: Any) -> None:
    """Write metrics/NAME_time.json: seconds since `start` (time.perf_counter), peak memory, figures, conditions."""
    seconds = round(time.perf_counter() - start, 3)
    known = {"seconds": seconds, **peak_figures(), **figures, "conditions": conditions}
    write_times(name, name, paths.figures(name), known)
