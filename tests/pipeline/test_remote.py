"""A group's cache: one clone pushes to a remote, another pulls, and `dvc repro` has nothing to do."""

import pytest


@pytest.fixture(scope="module")
def colleague(clone, tmp_path_factory):
    """What somebody else gets by `git clone` after `dvc push`; it has no cache."""
    store = tmp_path_factory.mktemp("remote") / "store"
    clone.dvc("remote", "add", "-d", "store", str(store))
    clone.commit("a remote")
    clone.dvc("push")
    other = type(clone)(tmp_path_factory.mktemp("colleague") / "clone")
    other.install_python()
    clone.run("git", "clone", "-q", str(clone.path), str(other.path))
    assert not (other.path / "models").exists()
    return other


def test_a_pulled_pipeline_runs_nothing(clone, colleague):
    colleague.dvc("pull")
    assert colleague.repro().commands == []
    for path in ("models/model.safetensors", "data/vocab/tokenizer.json", "report/index.html"):
        assert (colleague.path / path).read_bytes() == (clone.path / path).read_bytes()
    assert colleague.run("git", "status", "--porcelain").stdout == ""


def test_a_pushed_change_arrives(clone, colleague):
    clone.set({"report.title": "the next one"})
    clone.repro()
    clone.commit("another title")
    clone.dvc("push")
    colleague.run("git", "pull", "-q")
    colleague.dvc("pull")
    assert colleague.repro().commands == []
    assert "the next one" in (colleague.path / "report/index.html").read_text(encoding="utf-8")
