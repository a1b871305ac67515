"""What a run finds in its folder, and the experiment that it becomes."""

from pathlib import Path

import pytest

from tinylm.base.config import InputError
from tinylm.experiments.git import git
from tinylm.experiments.slots import Slot
from tinylm.experiments.sweeps import Sweep

PARAMS = "{data: {path: }, vocab: {path: }, embedding: {path: }, train: {lr: 0.1}}"


@pytest.fixture
def slot(tmp_path, monkeypatch):
    """The slot of a sweep of one run, in a repository that has only a few parameters."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dvc.stage.run.cmd_run", None)  # a slot replaces it
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "test")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "test@localhost")
    (tmp_path / "params.yaml").write_text(PARAMS)
    git("init", "-q")
    git("add", "params.yaml")
    git("commit", "-q", "-m", "parameters")
    commit = git("rev-parse", "HEAD")
    sweep = Sweep("s", commit, commit, "evaluate", [{"train.lr": 0.1}])
    folder = sweep.folder / "slots/here-0"
    git("worktree", "add", "-q", "--detach", str(folder), commit)
    monkeypatch.chdir(folder)
    return Slot(sweep, print)


def test_a_run_keeps_its_own_experiment_but_not_that_of_an_earlier_sweep(slot):
    baseline = slot.sweep.baseline
    reference = f"refs/exps/{baseline[:2]}/{baseline[2:]}/s-0001"
    slot.enter(1, {"train.lr": 0.2})
    git("update-ref", reference, baseline)
    with pytest.raises(InputError, match=r"experiment s-0001 .*--resume s$"):
        slot.record(1)
    assert git("rev-parse", reference) == baseline
    git("update-ref", "-d", reference)
    slot.record(1)
    recorded = git("rev-parse", reference)
    assert "lr: 0.2" in git("show", f"{recorded}:params.yaml")
    # the worker was killed, and the run is repeated with other times
    Path("metrics").mkdir()
    Path("metrics/time.json").touch()
    slot.record(1)
    assert git("rev-parse", reference) == recorded
