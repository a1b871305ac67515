"""Which files of the workspace belong to the current parameters, and which code made them."""

import dataclasses
import hashlib
import json
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tinylm.base.config import PARAMS_FILE, InputError, load_params

if TYPE_CHECKING:
    from tinylm.report.sources import Run

LOCK = "dvc.lock"
Stage = dict[str, Any]


def _git(folder: str | Path, *words: str) -> str | None:
    try:
        found = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return found.stdout if found.returncode == 0 else None


def revision(folder: str | Path = ".") -> str | None:
    """The commit of the code, with "+" appended if tracked files differ from it; None outside git."""
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
    """The files below the folder that git tracks, relative to it, sorted; None outside git."""
    listed = _git(folder, "ls-files", "-z")
    return None if listed is None else sorted(name for name in listed.split("\0") if name)


def untracked(folder: str | Path, *paths: str) -> list[str]:
    """The files below these paths that git neither tracks nor ignores, sorted; none outside git."""
    listed = _git(folder, "ls-files", "-z", "--others", "--exclude-standard", "--", *paths) or ""
    return sorted(name for name in listed.split("\0") if name)


def _md5(path: Path) -> str | None:
    """MD5 of a file, or of a folder as DVC counts it; None if it is neither."""
    if path.is_file():
        return hashlib.md5(path.read_bytes()).hexdigest()
    if not path.is_dir():
        return None
    return _folder_md5(
        {file.relative_to(path).as_posix(): file for file in path.rglob("*") if file.is_file()}
    )


def _folder_md5(files: Mapping[str, Path]) -> str:
    rows = [{"md5": _md5(files[name]), "relpath": name} for name in sorted(files)]
    return hashlib.md5(json.dumps(rows, sort_keys=True).encode()).hexdigest() + ".dir"


def _paths(stage: Stage, key: str) -> dict[str, str]:
    rows = stage.get(key)
    return {
        row["path"]: row.get("md5", "")
        for row in rows or []
        if isinstance(row, dict) and "path" in row
    }


def _overlap(path: str, other: str) -> bool:
    """Whether one is the other or is inside it."""
    return f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/")


class _Lock:
    """dvc.lock compared with the current parameters: which stages were run with others, or read what has changed."""

    def __init__(
        self, folder: Path | None, stages: dict[str, Stage], params: dict[str, Any]
    ) -> None:
        self.folder, self.stages, self.params = folder, stages, params
        self._seen: dict[str, str] = {}

    def why(self, name: str) -> str:
        """Why the stage's files do not belong to these parameters; empty if they do."""
        if name not in self._seen:
            self._seen[name] = ""
            self._seen[name] = next(self._problems(name), "")
        return self._seen[name]

    def _counts(self, path: str, dep: str) -> bool:
        """False for a gathered file that is gone: DVC keeps the entries of settings that are no longer run."""
        return (
            self.folder is None or not path.startswith(f"{dep}/") or (self.folder / path).exists()
        )

    def _problems(self, name: str) -> Iterator[str]:
        stage = self.stages[name]
        for section, values in (stage.get("params", {}).get(PARAMS_FILE) or {}).items():
            if self.params.get(section) != values:
                yield f"section {section} of {PARAMS_FILE} was another"
        for dep, md5 in _paths(stage, "deps").items():
            for other, upstream in self.stages.items():
                outs = _paths(upstream, "outs").items()
                made = {
                    path: found
                    for path, found in outs
                    if _overlap(path, dep) and self._counts(path, dep)
                }
                if not made or other == name:
                    continue
                gathered = any(
                    path.startswith(f"{dep}/") for path in made
                )  # files of several stages in one folder
                if (
                    made.get(dep, _md5(self.folder / dep) if gathered and self.folder else md5)
                    != md5
                ):
                    yield f"{dep} was another"
                elif self.why(other):
                    yield f"what it read of stage {other} is not of these parameters"


def _stages(folder: str | Path) -> dict[str, Stage]:
    path = Path(folder) / LOCK
    if not path.exists():
        raise InputError(f"{LOCK} is missing: run dvc repro")
    stages = load_params(path).get("stages")
    if not isinstance(stages, dict):
        raise InputError(f"{LOCK}: holds no stages; run dvc repro")
    return stages


def output_md5(folder: str | Path, stage: str, out: str) -> str:
    """MD5 of a stage's output in dvc.lock. Raises InputError if the output is missing or has other bytes."""
    noted = _paths(_stages(folder).get(stage, {}), "outs").get(out)
    if noted is None or _md5(Path(folder) / out) != noted:
        raise InputError(
            f"{out} is not what stage {stage} wrote: run dvc repro {stage}, or dvc checkout {out}"
        )
    return noted


def stale_stages(
    stages: dict[str, Stage], params: dict[str, Any], names: Sequence[str]
) -> dict[str, str]:
    """{stage: why} of the named stages whose last run, according to a dvc.lock, was not with these parameters.

    The workspace is not looked at: the lock may be that of another revision.
    """
    lock = _Lock(None, stages, params)
    reasons = {
        name: lock.why(name) if name in stages else f"{LOCK} does not have it" for name in names
    }
    return {
        name: f"stage {name} is not of these parameters: {why}"
        for name, why in reasons.items()
        if why
    }


def stale(folder: str | Path, params: dict[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """({stage: why}, {file: why}) of what dvc.lock does not vouch for.

    Stages whose last run was not with these parameters and this upstream; files that a stage wrote directly and whose
    bytes are not those that DVC noted. Raises InputError if there is no lock.
    """
    stages = _stages(folder)
    lock = _Lock(Path(folder), stages, params)
    found = {name: why for name in stages if (why := lock.why(name))}
    files = {
        out: f"{out} is not the file that stage {name} wrote"
        for name, stage in stages.items()
        for out, md5 in _paths(stage, "outs").items()
        if out.endswith((".json", ".csv"))
        and (Path(folder) / out).exists()
        and _md5(Path(folder) / out) != md5
    }
    return found, files


def without_stale(run: "Run", folder: str | Path) -> tuple["Run", list[str]]:
    """The run with only what was made with these parameters, and a line for each stage or file left out."""
    from tinylm.report.sources import FILES  # here, since it loads numpy

    stages, files = stale(folder, run.params)
    reasons = {
        name: f"{stage}: {stages[stage]}; dvc repro {stage}"
        if stage in stages
        else f"{files[path]}; dvc repro {stage}"
        for name, (path, stage) in FILES.items()
        if name in run.found and (stage in stages or path in files)
    }
    kept = {name: value for name, value in run.found.items() if name not in reasons}
    return dataclasses.replace(run, found=kept), list(dict.fromkeys(reasons.values()))


def changed_code(folder: str | Path, names: Collection[str]) -> list[str]:
    """A line for each of the named stages whose code, as far as git tracks it, is no longer what its last run used."""
    files, root, lines = tracked(folder) or [], Path(folder), []
    for name, stage in _stages(folder).items():
        if name.partition("@")[0] not in names:
            continue
        for dep, md5 in _paths(stage, "deps").items():
            if (
                dep.startswith(("stages/", "tinylm/"))
                and files
                and _code_md5(root, dep, files) != md5
            ):
                lines.append(f"stage {name} ran with other code: {dep} has changed since")
                break
    return lines


def _code_md5(root: Path, dep: str, files: Sequence[str]) -> str | None:
    """MD5 of a file of the code, or of the tracked files of a folder as DVC counts a folder."""
    if (root / dep).is_file():
        return _md5(root / dep)
    inside = {
        name.removeprefix(f"{dep}/"): root / name for name in files if name.startswith(f"{dep}/")
    }
    return _folder_md5(inside)
