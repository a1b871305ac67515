"""Each stage on a full disk, and killed while it writes: no file is cut off, and the next start ends as usual."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.disk import Disk, full
from tests.faults.finished import outs, same_bytes, sums, temporary, unfinished
from tests.support.stages import ORDER, ROOT, run


@pytest.fixture
def folder(finished_run, tmp_path, monkeypatch):
    """A finished run; the current folder."""
    shutil.copytree(finished_run, tmp_path / "run", symlinks=True)
    monkeypatch.chdir(tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("command", ORDER)
def test_a_fault_while_a_stage_writes_leaves_whole_files(folder, command, capsys):
    expected = sums(folder)
    for path in outs(command):
        shutil.rmtree(path) if Path(path).is_dir() else Path(path).unlink(missing_ok=True)
    number = 4 if command.startswith("seed_score") else 9  # within the first file, or after it
    with pytest.MonkeyPatch.context() as patch:
        Disk(number, full).install(patch)
        assert run(command) == 1
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "/" in errors[0]  # the file
    assert temporary(folder) == []
    assert unfinished(folder, expected) == []

    name, *arguments = command.split()
    killer = [sys.executable, "-m", "tests.support.killer", str(number), f"stages.{name}"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    killed = subprocess.run([*killer, *arguments], env=environment, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert unfinished(folder, expected) == []
    assert run(command) == 0
    same_bytes(folder, expected)
