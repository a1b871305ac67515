"""What dvc.yaml says that a stage is given: its sections of params.yaml, its code, its data.

DVC records what it finds when a stage has ended, not what the stage began with. So a stage looks at both: if somebody
edited its inputs while it ran, it fails, and nothing is recorded.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tinylm.base import paths
from tinylm.base.config import PARAMS_FILE, InputError, load_params
from tinylm.base.files import sha256
from tinylm.host.command import CommandFailed, check_at_end

PIPELINE = "dvc.yaml"
_HASHED = 1 << 20  # bytes; of larger files size and time are compared


def _entry(stage: str, folder: Path) -> dict[str, Any]:
    path = folder / PIPELINE
    stages = load_params(path).get("stages") if path.exists() else None
    entry = stages.get(stage) if isinstance(stages, dict) else None
    return entry if isinstance(entry, dict) else {}


def _texts(values: Any) -> list[str]:
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def sections(stage: str, params: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The sections of params.yaml that dvc.yaml names for a stage; all of them if it does not have the stage."""
    names = _texts(_entry(stage, folder).get("params")) or sorted(params)
    return {name: params.get(name) for name in names}


def made_before(stage: str, pipeline: Path, folder: Path) -> dict[str, str | None]:
    """SHA-256 of what earlier stages made for this one below `folder`, None of what is missing.

    A folder stands for its JSON files: they hold the sums of the others.
    """
    found: dict[str, str | None] = {}
    for name in _texts(_entry(stage, pipeline).get("deps")):
        if name.partition("/")[0] not in paths.OUTPUTS:
            continue
        place = folder / name
        files = sorted(place.rglob("*.json")) if place.is_dir() else [place]
        found |= {
            file.relative_to(folder).as_posix(): sha256(file) if file.is_file() else None
            for file in files
        }
    return found


def _state(path: Path) -> Any:
    try:
        found = path.stat()
        return sha256(path) if found.st_size <= _HASHED else (found.st_size, found.st_mtime_ns)
    except OSError:
        return None


def _given(stage: str, params: dict[str, Any]) -> dict[str, Any]:
    """{what: its state} of the sections, the code and the files from outside the pipeline, read in this folder."""
    given: dict[str, Any] = {
        f"{PARAMS_FILE}: section {k}": v for k, v in sections(stage, params, Path()).items()
    }
    for written in _texts(_entry(stage, Path()).get("deps")):
        name: Any = written
        if written.startswith("${"):
            section, _, key = written.strip("${}").partition(".")
            name = (params.get(section) or {}).get(key)
        if not isinstance(name, str) or name.partition("/")[0] in paths.OUTPUTS:
            continue
        place = Path(name)
        files = (
            (path for path in place.rglob("*") if "__pycache__" not in path.parts)
            if place.is_dir()
            else [place]
        )
        given |= {str(path): _state(path) for path in files if not path.is_dir()}
    return given


def refuse_edits(params: dict[str, Any]) -> None:
    """Let the stage that this process runs fail at its end if its inputs are not what they are now."""
    running = getattr(getattr(sys.modules["__main__"], "__spec__", None), "name", "")
    if not running.startswith("stages."):
        return
    stage = running.removeprefix("stages.")
    check_at_end(_comparison(stage, _given(stage, params)))


def _comparison(stage: str, before: dict[str, Any]) -> Callable[[], None]:
    def compare() -> None:
        try:
            after = _given(stage, load_params())
        except InputError:  # it is being edited
            after = {}
        edited = [
            what
            for what in sorted(before.keys() | after.keys())
            if before.get(what) != after.get(what)
        ]
        edited.sort(key=lambda what: not what.startswith(PARAMS_FILE))
        if edited:
            more = f" and {len(edited) - 1} more" if edited[1:] else ""
            raise CommandFailed(
                f"{edited[0]}{more} changed while stage {stage} ran: its result is not recorded, since DVC would take "
                f"it for that of what is there now; run dvc repro again"
            )

    return compare
