"""What a folder holds, files of stories, and folders that are made once for all processes of a test run."""

import fcntl
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest


def contents(folder: Path, pattern: str = "*") -> dict[str, bytes]:
    """{path below the folder: bytes} of all files, sorted."""
    paths = [path for path in sorted(folder.rglob(pattern)) if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def write_stories(path: Path, texts: Iterable[str]) -> None:
    """JSON lines, one for each story."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.dumps({"text": text}) + "\n" for text in texts]
    path.write_text("".join(rows), encoding="utf-8")


def made_once(
    tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]
) -> Path:
    """The folder that make(folder) fills, in the first process that asks for it; not to be changed."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    with open(base / f"{name}.lock", "w", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not (base / f"{name}.made").exists():
            (base / name).mkdir()
            make(base / name)
            (base / f"{name}.made").touch()
    return base / name
