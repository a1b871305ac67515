"""dvc.lock: what each stage last ran with, and which stages ran before their inputs were made anew."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tinylm.base.config import PARAMS_FILE, read_yaml

LOCK = "dvc.lock"


def read_lock(folder: str | Path) -> dict[str, Any]:
    """{stage: its entry in dvc.lock}; empty without that file."""
    path = Path(folder) / LOCK
    stages = read_yaml(path).get("stages") if path.exists() else None
    return dict(stages or {})


def params_of(stages: Mapping[str, Any], stage: str) -> dict[str, Any]:
    """The sections of params.yaml that a stage ran with."""
    return stages.get(stage, {}).get("params", {}).get(PARAMS_FILE) or {}


def md5s(stages: Mapping[str, Any], stage: str, key: str) -> dict[str, str]:
    """{path: MD5} of a stage's `deps` or `outs`."""
    return {row["path"]: row.get("md5", "") for row in stages.get(stage, {}).get(key, ())}


def outdated(stages: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Those of these stages, which are in the order of the pipeline, that did not run on the latest outputs of earlier ones."""
    written: dict[str, str] = {}
    found = []
    for name in names:
        inputs = md5s(stages, name, "deps")
        if any(written.get(path, md5) != md5 for path, md5 in inputs.items()):
            found.append(name)
        written |= md5s(stages, name, "outs")
    return found
