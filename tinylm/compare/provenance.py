"""Which results belong to the current parameters, by dvc.lock, and which code made them, by git."""

import dataclasses
import hashlib
import json
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tinylm.base.config import PARAMS_FILE, InputError, load_params, parameter

if TYPE_CHECKING:
    from tinylm.report.sources import Run

LOCK = "dvc.lock"
CODE = ("stages/", "tinylm/")
Stage = Mapping[str, Any]  # its entry in dvc.lock
Stages = dict[str, Stage]


def _git(folder: str | Path, *words: str) -> str | None:
    """The output of a git command; None outside git."""
    command = ["git", "-C", str(folder), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def revision(folder: str | Path = ".") -> str | None:
    """The commit of the code, with "+" if tracked files differ from it; None outside git."""
    commit = _git(folder, "rev-parse", "--short=12", "HEAD")
    if commit is None:
        return None
    edited = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", "tinylm", "stages")
    return commit.strip() + ("+" if edited else "")


def uncommitted(folder: str | Path, *paths: str) -> tuple[str, ...]:
    """The paths whose current state is in no commit; none outside git."""
    changed = _git(folder, "status", "--porcelain", "--ignored", "--", *paths) or ""
    return tuple(sorted(line[3:] for line in changed.splitlines()))


def tracked(folder: str | Path) -> list[str] | None:
    """The files below the folder that git tracks, relative to it; None outside git."""
    names = _git(folder, "ls-files", "-z")
    return None if names is None else sorted(filter(None, names.split("\0")))


def untracked(folder: str | Path, *paths: str) -> list[str]:
    """The files below these paths that git neither tracks nor ignores; none outside git."""
    names = _git(folder, "ls-files", "-z", "--others", "--exclude-standard", "--", *paths) or ""
    return sorted(filter(None, names.split("\0")))


def _md5(path: Path, files: Sequence[Path] | None = None) -> str | None:
    """MD5 of a file, or of these (all) files of a folder as DVC counts it; None if it is neither."""
    if path.is_file():
        return hashlib.md5(path.read_bytes()).hexdigest()
    if not path.is_dir():
        return None
    members = path.rglob("*") if files is None else files
    rows = []
    for file in members:
        if file.is_file():
            rows.append({"md5": _md5(file), "relpath": file.relative_to(path).as_posix()})
    rows.sort(key=lambda row: str(row["relpath"]))
    text = json.dumps(rows, sort_keys=True)
    return hashlib.md5(text.encode()).hexdigest() + ".dir"


def stage_paths(stage: Stage, key: str) -> dict[str, str]:
    """{path: MD5} of a stage's `deps` or `outs`."""
    return {row["path"]: row.get("md5", "") for row in stage.get(key, ())}


def _read_lock(folder: str | Path) -> Stages:
    path = Path(folder) / LOCK
    if not path.exists():
        raise InputError(f"{LOCK} is missing: run dvc repro")
    return load_params(path).get("stages") or {}


def stale_stages(
    stages: Stages, params: dict[str, Any], names: Collection[str], folder: Path | None = None
) -> dict[str, str]:
    """{stage: why} of the named stages whose last run was not with these parameters and inputs.

    folder: where outputs are, if the lock is the workspace's. There, a missing output of a setting
    that is no longer run makes no stage stale.
    """
    reasons = {name: f"{LOCK} does not have it" for name in names if name not in stages}
    writers = {}
    for name, stage in stages.items():
        for path, md5 in stage_paths(stage, "outs").items():
            if folder is None or (folder / path).exists():
                writers[path] = name, md5
    for _ in stages:  # in each round, staleness travels one stage down
        for name, stage in stages.items():
            reason = reasons.get(name) or _why_stale(stage, params, writers, reasons)
            if reason:
                reasons[name] = reason
    return {name: reasons[name] for name in names if name in reasons}


def _changed_parameter(stage: Stage, params: dict[str, Any]) -> str:
    """The first section or key of params.yaml that the stage's last run had with another value; or ""."""
    used = stage.get("params", {}).get(PARAMS_FILE) or {}
    for name, value in used.items():
        if parameter(params, name) != value:
            return str(name)
    return ""


def _why_stale(
    stage: Stage,
    params: dict[str, Any],
    writers: dict[str, tuple[str, str]],
    reasons: dict[str, str],
) -> str:
    if name := _changed_parameter(stage, params):
        return f"{name} of {PARAMS_FILE} was another"
    for dep, md5 in stage_paths(stage, "deps").items():
        for path, (writer, written) in writers.items():
            if path == dep and written != md5:
                return f"{dep} was another"
            if f"{path}/".startswith(f"{dep}/") and writer in reasons:
                return f"it read {path} of stage {writer}, which is not of these parameters"
    return ""


def is_current(folder: str | Path, params: dict[str, Any], stage: str) -> bool:
    """Whether what a stage wrote is there, and made with these parameters, inputs and code."""
    entry = _read_lock(folder).get(stage)
    if entry is None or _changed_parameter(entry, params):
        return False
    files = stage_paths(entry, "deps") | stage_paths(entry, "outs")
    for path, md5 in files.items():
        if not path.startswith(CODE) and _md5(Path(folder) / path) != md5:
            return False
    return not changed_code(folder, {stage})


def output_md5(folder: str | Path, stage: str, out: str) -> str:
    """MD5 of a stage's output. Raises InputError if it is missing or has other bytes."""
    entry = _read_lock(folder).get(stage, {})
    md5 = stage_paths(entry, "outs").get(out)
    if md5 is None or _md5(Path(folder) / out) != md5:
        raise InputError(f"{out} is not what stage {stage} wrote: run dvc repro {stage}")
    return md5


def without_stale(run: "Run", folder: str | Path) -> tuple["Run", list[str]]:
    """The run without results of other parameters or edited files, and a line for each left out.

    Raises InputError if there is no dvc.lock.
    """
    from tinylm.report.sources import FILES  # here, since it loads numpy

    stages = _read_lock(folder)
    stale = stale_stages(stages, run.params, list(stages), Path(folder))
    reasons = {}
    for name, (path, stage) in FILES.items():
        if name not in run.files:
            continue
        md5 = stage_paths(stages.get(stage, {}), "outs").get(path)
        if stage in stale:
            reasons[name] = f"{stage}: {stale[stage]}; dvc repro {stage}"
        elif md5 is not None and _md5(Path(folder) / path) != md5:
            reasons[name] = f"{path} is not the file that stage {stage} wrote; dvc repro {stage}"
    current = {name: value for name, value in run.files.items() if name not in reasons}
    return dataclasses.replace(run, files=current), list(dict.fromkeys(reasons.values()))


def changed_code(folder: str | Path, names: Collection[str]) -> list[str]:
    """A line for each of the named stages whose tracked code its last run did not use."""
    root = Path(folder)
    files = [root / name for name in tracked(folder) or []]
    lines = []
    for name, stage in _read_lock(folder).items():
        if not files or name.partition("@")[0] not in names:
            continue
        for dep, md5 in stage_paths(stage, "deps").items():
            if not dep.startswith(CODE):
                continue
            inside = [file for file in files if file.is_relative_to(root / dep)]
            if _md5(root / dep, inside) != md5:
                lines.append(f"stage {name} ran with other code: {dep} has changed since")
                break
    return lines
