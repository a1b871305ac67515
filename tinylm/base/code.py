"""The code that decides what a stage computes; `make deps` lists it in dvc.yaml."""

import hashlib
from pathlib import Path
from typing import Any

from tinylm.base.config import read_yaml
from tinylm.base.files import sha256

ROOT = Path(__file__).parents[2]
PIPELINE = "dvc.yaml"
_CODE = ("stages/", "tinylm/")


def stage_entry(stage: str) -> dict[str, Any]:
    """What dvc.yaml says of a stage: its deps, params and outs."""
    entry: dict[str, Any] = read_yaml(ROOT / PIPELINE)["stages"][stage]
    return entry


def code_sha256(stage: str) -> str:
    """One SHA-256 over names and bytes of the code that a stage of dvc.yaml depends on."""
    digest = hashlib.sha256()
    for dependency in sorted(stage_entry(stage)["deps"]):
        if not dependency.startswith(_CODE):
            continue
        path = ROOT / dependency
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and "__pycache__" not in file.parts:
                name = file.relative_to(ROOT).as_posix()
                digest.update(f"{name} {sha256(file)}\n".encode())
    return digest.hexdigest()
