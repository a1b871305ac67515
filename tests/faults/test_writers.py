"""A full disk while a stage writes: one line names the file, and no file is cut off."""

import shutil
from pathlib import Path

import pytest

from tests.faults.disk import Disk, full
from tests.faults.finished import outs, sums, temporary, whole
from tests.support.stages import run


@pytest.mark.parametrize("stage", ["download", "vocab", "train", "evaluate", "report"])
def test_a_full_disk_leaves_whole_files_and_the_next_run_ends_as_usual(
    finished_run, tmp_path, monkeypatch, stage, capsys
):
    folder = tmp_path / "run"
    shutil.copytree(finished_run, folder, symlinks=True)
    monkeypatch.chdir(folder)
    expected = sums(folder)
    for path in outs(stage):
        shutil.rmtree(path) if Path(path).is_dir() else Path(path).unlink(missing_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        Disk(9, full).install(patch)
        assert run(stage) == 1
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "/" in errors[0]  # the file
    assert temporary(folder) == []
    assert [name for name in sums(folder) if not whole(folder / name, name, expected)] == []
    assert run(stage) == 0
    assert set(sums(folder)) == set(expected)
    assert [name for name in expected if not whole(folder / name, name, expected)] == []
