"""A stage killed in the middle: nothing half-written, and the next `dvc repro` ends the same."""

from pathlib import Path

import pytest

from tests.faults.finished import sums, temporary, whole


@pytest.fixture(scope="module")
def copy(base, tmp_path_factory):
    """What a reader gets by `git clone`: code, dvc.lock and the files in git, but no cache."""
    clone = type(base)(tmp_path_factory.mktemp("interrupted") / "clone")
    clone.install_python()
    base.run("git", "clone", "-q", str(base.path), str(clone.path))
    return clone


def test_a_killed_training_leaves_no_partial_file_and_ends_with_the_same_bytes(copy, base):
    killed = copy.repro("train", code=255, KILL_STAGE="stages.train", KILL_AT="60")
    assert killed.commands[-1] == "train"
    expected = sums(base.path)
    for name in sums(copy.path):
        assert whole(copy.path / name, name, expected), name
    assert not Path(copy.path / "models/model.safetensors").exists()

    finished = copy.repro("train")
    assert finished.commands == ["train"]
    for name in ("models/model.safetensors", "metrics/train.json", "plots/loss.csv"):
        assert (copy.path / name).read_bytes() == (base.path / name).read_bytes()
    assert [name for name in temporary(copy.path) if not name.startswith(".dvc")] == []
