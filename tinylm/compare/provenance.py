"""Which results belong to the current parameters, from DVC, and which code made them, from git.

The functions about the working folder call DVC and git. `stale_stages` reads the dvc.lock of any revision.
"""

import dataclasses
import subprocess
from collections.abc import Collection, Mapping
from typing import Any

from tinylm.base.config import PARAMS_FILE, InputError, parameter, read_yaml
from tinylm.base.files import require

LOCK = "dvc.lock"
CODE = ("stages/", "tinylm/")
IN_ORDER = "not in cache"  # DVC's word for a file that only its cache lacks
Stage = Mapping[str, Any]  # its entry in dvc.lock


def _git(*words: str) -> str | None:
    """The output of a git command; None outside git."""
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def revision() -> str | None:
    """The commit of the code, with "+" if tracked files differ from it; None outside git."""
    commit = _git("rev-parse", "--short=12", "HEAD")
    if commit is None:
        return None
    edited = _git("status", "--porcelain", "--untracked-files=no", "--", "tinylm", "stages")
    return commit.strip() + ("+" if edited else "")


def tracked() -> list[str] | None:
    """The files here that git tracks; None outside git."""
    names = _git("ls-files", "-z")
    return None if names is None else sorted(filter(None, names.split("\0")))


def untracked(*paths: str) -> list[str]:
    """The files below these paths that git neither tracks nor ignores; none outside git."""
    names = _git("ls-files", "-z", "--others", "--exclude-standard", "--", *paths) or ""
    return sorted(filter(None, names.split("\0")))


@dataclasses.dataclass(frozen=True)
class Status:
    """What differs from the last run of each stage, by `dvc status`.

    stale: {stage: why its results are not of the current parameters and files}.
    code: {stage: the code that has changed since it ran}.
    """

    stale: dict[str, str]
    code: dict[str, str]


def read_status() -> Status:
    """The state of the working folder. Raises InputError without dvc.lock, or if DVC fails."""
    import networkx
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    require(LOCK)
    try:
        with Repo(".") as repo:
            changes = repo.status()
            graph = repo.index.graph  # from each stage to those whose results it reads
    except DvcException as error:
        raise InputError(f"dvc status: {str(error).splitlines()[0]}") from None
    status = Status({}, {})
    for stage, entries in changes.items():
        for path, change in _changed_paths(entries):
            if path.startswith(CODE):
                status.code.setdefault(stage, path)
            elif change != IN_ORDER:
                status.stale.setdefault(stage, f"{path} is not that of its last run")
    for writer in [stage for stage in graph if stage.addressing in status.stale]:
        for reader in networkx.ancestors(graph, writer):
            reason = (
                f"it read results of stage {writer.addressing}, which are not of these parameters"
            )
            status.stale.setdefault(reader.addressing, reason)
    return status


def _changed_paths(entries: list[Any]) -> list[tuple[str, Any]]:
    """(file, DVC's word for its change) of the inputs and outputs of a stage that changed."""
    paths: list[tuple[str, Any]] = []
    for entry in entries:
        for changed in entry.values() if isinstance(entry, dict) else ():
            for path, change in changed.items():
                name = path
                if path == PARAMS_FILE and isinstance(change, dict):
                    name = f"{', '.join(change)} of {PARAMS_FILE}"
                paths.append((name, change))
    return paths


def models_md5() -> str:
    """MD5 of stage train's output `models`, as dvc.lock has it."""
    stages = read_yaml(LOCK)["stages"]
    return stage_paths(stages["train"], "outs")["models"]


def stage_paths(stage: Stage, key: str) -> dict[str, str]:
    """{path: MD5} of a stage's `deps` or `outs`."""
    return {row["path"]: row.get("md5", "") for row in stage.get(key, ())}


def stale_stages(
    stages: Mapping[str, Stage], params: dict[str, Any], names: Collection[str]
) -> dict[str, str]:
    """{stage: why} of the named stages whose last run was not with these parameters and inputs.

    stages: those of a revision's dvc.lock. DVC itself compares the working folder only.
    """
    reasons = {name: f"{LOCK} does not have it" for name in names if name not in stages}
    writers = {}
    for name, stage in stages.items():
        for path, md5 in stage_paths(stage, "outs").items():
            writers[path] = name, md5
    for _ in stages:  # in each round, staleness travels one stage down
        for name, stage in stages.items():
            reason = reasons.get(name) or _why_stale(stage, params, writers, reasons)
            if reason:
                reasons[name] = reason
    return {name: reasons[name] for name in names if name in reasons}


def _why_stale(
    stage: Stage,
    params: dict[str, Any],
    writers: dict[str, tuple[str, str]],
    reasons: dict[str, str],
) -> str:
    used = stage.get("params", {}).get(PARAMS_FILE) or {}
    for name, value in used.items():
        if parameter(params, name) != value:
            return f"{name} of {PARAMS_FILE} was different"
    for dep, md5 in stage_paths(stage, "deps").items():
        for path, (writer, written) in writers.items():
            if path == dep and written != md5:
                return f"{dep} was different"
            if f"{path}/".startswith(f"{dep}/") and writer in reasons:
                return f"it read {path} of stage {writer}, which is not of these parameters"
    return ""
