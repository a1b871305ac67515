"""What a run finds in its folder, and the experiment that it becomes."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


def contents(folder):
    """{file: its bytes} below a folder, links to folders not followed, as DVC reads it."""
    files = [path for path in Path(folder).rglob("*") if path.is_file()]
    return {path.relative_to(folder): path.read_bytes() for path in files}


def write(folder, names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def test_a_run_finds_every_file_of_its_data_whichever_git_tracks(slot):
    names = st.sampled_from(["a.txt", "b/a.txt", "b/c/a.txt", "b/c/d.txt", "e/a.txt"])
    numbers = itertools.count(1)

    @settings(max_examples=30, deadline=None)
    @given(
        key=st.sampled_from(["data.path", "vocab.path", "embedding.path"]),
        tracked=st.sets(names),
        others=st.sets(names, min_size=1),
    )
    def check(key, tracked, others):
        folder = f"data of example {next(numbers)}"
        write(slot.root / folder, tracked | others)
        write(slot.path / folder, tracked)  # as git checks them out
        for _ in range(2):  # a slot is used for one run after another
            slot.enter(1, {key: folder})
            assert contents(slot.path / folder) == contents(slot.root / folder)

    check()


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


def test_a_folder_that_holds_the_slots_is_not_linked_into_itself(slot):
    write(slot.root, ["note.txt"])
    slot.enter(1, {"data.path": "."})
    assert not (slot.path / "note.txt").exists()
    assert not (slot.path / "runs/sweeps").exists()
