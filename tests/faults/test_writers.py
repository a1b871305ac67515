"""A full disk while a stage writes: one line names the file, and no file is cut off."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from tests.support.stages import ROOT, is_measured, run
from tinylm.base.config import read_yaml
from tinylm.base.files import sha256

FOLDERS = ("data", "models", "metrics", "plots", "report")
STAGES = read_yaml(ROOT / "dvc.yaml")["stages"]


def remove_outputs(stage: str) -> None:
    """As DVC does before it starts a stage."""
    for kind in ("outs", "metrics", "plots"):
        for entry in STAGES[stage].get(kind, []):
            path = Path(entry if isinstance(entry, str) else next(iter(entry)))
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def sums() -> dict[str, str]:
    """SHA-256 of the files in the folders of the pipeline, without those that tell of time."""
    files = [path for folder in FOLDERS for path in Path(folder).rglob("*") if path.is_file()]
    return {str(path): sha256(path) for path in files if not is_measured(path.as_posix())}


@pytest.mark.parametrize("stage", ["download", "vocab", "train", "evaluate", "report"])
def test_a_full_disk_leaves_whole_files_and_the_next_run_ends_as_usual(
    finished_run, tmp_path, monkeypatch, stage, capsys
):
    folder = tmp_path / "run"
    shutil.copytree(finished_run, folder, symlinks=True)
    monkeypatch.chdir(folder)
    expected = sums()
    remove_outputs(stage)
    fsync = os.fsync
    synced: list[int] = []

    def full_at_the_third_file(handle):  # each file is synced, and then its folder
        if len(synced) == 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        synced.append(handle)
        fsync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_at_the_third_file)
        assert run(stage) == 1
    (error,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("error: "))
    assert "/" in error  # the file
    assert sums().items() <= expected.items()  # and no temporary file
    assert run(stage) == 0
    assert sums() == expected
