"""dvc.lock: what each stage last ran with, and which stages are older than their inputs."""

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
    """The stages among `names`, in the order of the pipeline, that ran on older outputs of earlier ones."""
    written: dict[str, str] = {}
    found = []
    for name in names:
        inputs = md5s(stages, name, "deps")
        if any(written.get(path, md5) != md5 for path, md5 in inputs.items()):
            found.append(name)
        written |= md5s(stages, name, "outs")
    return found


def is_seed_of_run(stages: Mapping[str, Any], seed: Any) -> bool:
    """Whether a further seed was trained and scored as the run was: settings, code and data."""
    train, score = f"seed_train@{seed}", f"seed_score@{seed}"
    if params_of(stages, train) != params_of(stages, "train"):
        return False
    for further, of_run in ((train, "train"), (score, "evaluate")):
        inputs = md5s(stages, of_run, "deps")
        for path, md5 in md5s(stages, further, "deps").items():
            if inputs.get(path, md5) != md5:
                return False
    scored = md5s(stages, score, "deps")
    return all(scored.get(path, md5) == md5 for path, md5 in md5s(stages, train, "outs").items())
