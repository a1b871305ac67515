"""A group's cache: one clone pushes to a remote, another pulls, and there `dvc repro` has nothing to do."""

import pytest


@pytest.fixture(scope="module")
def pushed(clone, tmp_path_factory):
    """The remote's folder, after `dvc push` in a clone in which everything ran."""
    store = tmp_path_factory.mktemp("remote") / "store"
    clone.dvc("remote", "add", "-d", "store", str(store))
    clone.commit("a remote")
    clone.dvc("push")
    return store


@pytest.fixture(scope="module")
def colleague(clone, pushed, tmp_path_factory):
    """What somebody else gets by `git clone`; it has no cache."""
    other = type(clone)(tmp_path_factory.mktemp("colleague") / "clone")
    other.install_python()
    clone.run("git", "clone", "-q", str(clone.path), str(other.path))
    assert not (other.path / ".dvc/cache").exists()
    assert not (other.path / "models").exists()
    return other


def test_a_pulled_pipeline_runs_nothing(clone, colleague):
    colleague.dvc("pull")
    found = colleague.repro()
    assert found.commands == []
    assert found.restored == set()
    for path in (
        "models/model.safetensors",
        "data/vocab/tokenizer.json",
        "data/figures/train.json",
    ):
        assert (colleague.path / path).read_bytes() == (clone.path / path).read_bytes()
    assert colleague.run("git", "status", "--porcelain").stdout == ""


def test_a_pushed_change_arrives(clone, colleague):
    """The next experiment of the one is the other's by `git pull` and `dvc pull`."""
    clone.set({"report.title": "the next one"})
    clone.repro()
    clone.commit("another title")
    clone.dvc("push")
    colleague.run("git", "pull", "-q")
    colleague.dvc("pull")
    assert colleague.repro().commands == []
    assert "the next one" in (colleague.path / "report/index.html").read_text(encoding="utf-8")


def test_a_remote_that_lost_a_file_is_noticed(clone, pushed, colleague):
    """Nothing is taken for there that is not: `dvc pull` says so, and `dvc repro` makes it again."""
    weights = clone.path / "models/model.safetensors"
    clone.set({"train.lr": 0.02})
    clone.repro("train")
    clone.commit("another rate")
    clone.dvc("push")
    (entry,) = [
        path
        for path in pushed.rglob("*")
        if path.is_file() and path.read_bytes() == weights.read_bytes()
    ]
    entry.chmod(0o644)
    entry.unlink()
    colleague.run("git", "pull", "-q")
    said = colleague.dvc("pull", "train", code=None)
    assert "failed to pull" in said
    assert f"{entry.parent.name}{entry.name}" in said
    here = colleague.path / "models/model.safetensors"
    assert not here.exists() or here.read_bytes() != weights.read_bytes()
    assert colleague.repro("train").commands == ["train"]
    assert (colleague.path / "models/model.safetensors").read_bytes() == weights.read_bytes()
