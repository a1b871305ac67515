"""The pipeline under DVC: from nothing, unchanged, after an edit and back, killed, pushed and pulled, plotted."""

import re
import shutil
from pathlib import Path

import pytest

from tests.faults.finished import sums, temporary, whole
from tests.support.reruns import STAGES

RESULTS = ("models/model.safetensors", "data/figures/train.json", "plots/loss.csv")


def commands(stages: set[str]) -> list[str]:
    """What is started for these stages, with seed 2."""
    started = []
    for stage in stages:
        if stage.startswith("seed_"):
            started.append(f"{stage} 2")
        else:
            started.append(stage)
    return sorted(started)


def test_from_nothing_every_stage_runs(first_run, base):
    assert first_run.ran == set(STAGES)
    assert sorted(first_run.commands) == commands(set(STAGES))
    assert [path for path in base.path.rglob(".*.tmp*") if ".dvc" not in path.parts] == []


def test_unchanged_nothing_runs_and_dvc_status_says_so(clone):
    again = clone.repro()
    assert again.commands == []
    assert again.unchanged == set(STAGES)
    assert "up to date" in clone.dvc("status")
    assert clone.run("git", "status", "--porcelain").stdout == ""


def test_a_wrong_value_stops_before_any_work_and_the_way_back_trains_nothing(clone, base):
    clone.set({"model.layers": "wrong"})
    failed = clone.repro(code=255)
    assert "params.yaml: model.layers: " in failed.text
    shutil.copy(base.path / "params.yaml", clone.path / "params.yaml")
    assert clone.repro().commands == []
    assert clone.metrics() == base.metrics()


@pytest.fixture
def git_clone(tmp_path):
    """git_clone(source): what a reader gets, code, dvc.lock and the files in git, but no cache."""

    def make(source):
        copy = type(source)(tmp_path / "clone")
        copy.install_python()
        source.run("git", "clone", "-q", str(source.path), str(copy.path))
        assert not (copy.path / "models").exists()
        return copy

    return make


def test_a_killed_training_leaves_no_partial_file_and_ends_with_the_same_bytes(git_clone, base):
    copy = git_clone(base)
    killed = copy.repro("train", code=255, KILL_STAGE="stages.train", KILL_AT="20")
    assert killed.commands[-1] == "train"
    expected = sums(base.path)
    for name in sums(copy.path):
        assert whole(copy.path / name, name, expected), name
    assert not (copy.path / "models/model.safetensors").exists()
    finished = copy.repro("train")
    assert finished.commands == ["train"]
    for name in RESULTS:
        assert (copy.path / name).read_bytes() == (base.path / name).read_bytes()
    assert [name for name in temporary(copy.path) if not name.startswith(".dvc")] == []


def test_what_one_pushes_another_pulls_and_nothing_runs(git_clone, clone, tmp_path):
    clone.dvc("remote", "add", "-d", "store", str(tmp_path / "store"))
    clone.commit("a remote")
    clone.dvc("push")
    colleague = git_clone(clone)
    colleague.dvc("pull")
    assert colleague.repro().commands == []
    for path in ("models/model.safetensors", "data/vocab/tokenizer.json", "report/index.html"):
        assert (colleague.path / path).read_bytes() == (clone.path / path).read_bytes()
    assert colleague.run("git", "status", "--porcelain").stdout == ""

    clone.set({"report.title": "the next one"})
    clone.repro()
    clone.commit("another title")
    clone.dvc("push")
    colleague.run("git", "pull", "-q")
    colleague.dvc("pull")
    assert colleague.repro().commands == []
    assert "the next one" in (colleague.path / "report/index.html").read_text(encoding="utf-8")

    colleague.set({"report.title": "built elsewhere"})
    assert colleague.repro().commands == ["report"]
    assert colleague.metrics() == clone.metrics()
    page = (colleague.path / "report/index.html").read_text(encoding="utf-8")
    assert "Not shown" not in page  # times travel


TITLES = {
    *("Loss", "Perplexity", "Learning rate", "Gradient norm", "Beam search", "Key-value cache"),
    *("Accumulation, equal tokens", "Gradient checkpointing"),
}
OUTSIDE = r"""<(?:script|link|img|iframe)[^>]*\s(?:src|href)=["']?(?:https?:)?//[^"'\s>]+"""


@pytest.fixture(scope="module")
def pages(clone) -> dict[str, Path]:
    """The pages of two commits that differ in the learning rate."""
    clone.set({"train.lr": 0.02})
    clone.repro("train")
    clone.commit("a larger learning rate")
    changed = clone.dvc("params", "diff", "HEAD~1") + clone.dvc("metrics", "diff", "HEAD~1")
    assert "train.lr" in changed
    assert "model.layers" not in changed
    assert "val_loss" in changed
    clone.dvc("plots", "show", "-o", "shown")
    clone.dvc("plots", "diff", "HEAD~1", "-o", "compared")
    return {name: clone.path / name / "index.html" for name in ("shown", "compared")}


@pytest.mark.parametrize("name", ["shown", "compared"])
def test_a_page_of_plots_holds_the_charts_and_loads_nothing_from_outside(pages, name):
    text = pages[name].read_text(encoding="utf-8")
    assert {title for title in TITLES if f'"{title}"' not in text} == set()
    assert re.findall(OUTSIDE, text) == []
    assert "vegaEmbed" in text
    assert ('"rev": "HEAD~1"' in text) == (name == "compared")
