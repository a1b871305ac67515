"""Some stages really killed at their calls, in the fork of a process; `make kills` does it to all at every one."""

import os
from pathlib import Path

import pytest

from tests.faults import kills
from tests.faults.finished import sums


@pytest.mark.parametrize(
    ("command", "every", "least"), [("download", 4, 4), ("vocab", 13, 3), ("train", 11, 3)]
)
def test_fault_01_06_killed_at_its_calls(finished_run, command, every, least):
    assert kills.kill_everywhere(finished_run, sums(finished_run), command, every) >= least


def test_a_file_that_is_not_whole_is_found(finished_run, monkeypatch):
    """Killed while a file stands half-written under its final name: the check itself fails where it should."""

    def half(_: str) -> int:
        Path("data/stories").mkdir(parents=True, exist_ok=True)
        Path("data/stories/train.jsonl").write_bytes(b"half")
        os.replace("params.yaml", "params.yaml")
        return 0

    monkeypatch.setattr(kills, "run", half)
    with pytest.raises(
        AssertionError, match=r"killed at call 1: data/stories/train\.jsonl is not whole"
    ):
        kills.kill_everywhere(finished_run, sums(finished_run), "download")
