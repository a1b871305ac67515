"""What a stage writes; it fails if its inputs are edited while it runs, and an edit while training loses nothing."""

import json
import math
import os
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.clone import set_params
from tests.support.runs import part
from tests.support.stages import before_training, run
from tinylm.base import code, paths
from tinylm.base.command import CommandFailed, run_command
from tinylm.params.presets.write import FOLDER
from tinylm.params.stage import Stage
from tinylm.run.benches import Cache, CacheTimes
from tinylm.train.snapshot import Snapshots


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a pipeline of one stage."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(code, "ROOT", tmp_path)
    shutil.copy(FOLDER / "storybook.yaml", "params.yaml")
    entry = {
        "params": ["data", "decode"],
        "deps": ["stages/kv_bench.py", "data/stories", "${data.path}"],
    }
    Path("dvc.yaml").write_text(yaml.safe_dump({"stages": {"kv_bench": entry}}))
    Path("stages").mkdir()
    Path("stages/kv_bench.py").write_text("a")
    Path("inputs/stories").mkdir(parents=True)
    Path("inputs/stories/train.txt").write_text("a")


def test_results_metrics_and_times_are_written_with_the_conditions(folder):
    set_params(Path(), {"runtime.threads": 1})
    stage = Stage("kv_bench")
    stage.begin(seed=1)
    metrics = {
        "kv/on": {"speedup": 2.5, "peak_mib": None, "perplexity": math.inf},
        "kv/off": {"peak_mib": 1.0},
    }
    stage.write(part(Cache, same_ids=True), metrics, part(CacheTimes, settings=[]))
    results = json.loads(Path(paths.results("kv_bench")).read_text())
    times = json.loads(Path(paths.times("kv_bench")).read_text())
    assert results["same_ids"] is True
    assert json.loads(Path("metrics/kv/on.json").read_text()) == {"speedup": 2.5}
    assert json.loads(Path("metrics/kv/off.json").read_text()) == {"peak_mib": 1.0}
    assert times["settings"] == []
    assert times["seconds"] > 0
    assert times["conditions"]["threads"] >= 1
    assert "cpu" in times["conditions"]


VALUES = st.none() | st.floats() | st.integers(-2, 2)


def test_metrics_are_all_values_that_were_measured_and_are_finite(folder):
    stage = Stage("kv_bench")
    stage.begin(seed=1)

    @settings(max_examples=50)
    @given(values=st.dictionaries(st.sampled_from("abcde"), VALUES))
    def check(values):
        stage.write(part(Cache, same_ids=True), {"kv/on": values})
        measured = {name: value for name, value in values.items() if value is not None}
        expected = {name: value for name, value in measured.items() if math.isfinite(value)}
        assert json.loads(Path("metrics/kv/on.json").read_text()) == expected

    check()


@pytest.mark.parametrize(
    ("edit", "name"),
    [
        (lambda: set_params(Path(), {"data.seed": 77}), "params.yaml: data"),
        (lambda: set_params(Path(), {"decode.seed": 77}), "params.yaml: decode"),
        (lambda: Path("params.yaml").write_text("data: ["), "params.yaml, line 1"),
        (lambda: Path("stages/kv_bench.py").write_text("b"), "the code"),
        (lambda: set_params(Path(), {"evaluate.stories": 3}), None),
    ],
)
def test_a_stage_fails_if_an_input_of_it_is_edited_while_it_runs(folder, capsys, edit, name):
    def main() -> None:
        stage = Stage("kv_bench")
        edit()
        stage.write(part(Cache, same_ids=True))

    assert (run_command(main) != 0) == (name is not None)
    errors = capsys.readouterr().err.splitlines()
    assert [name in line for line in errors] == [True] * (name is not None)


NAMES = ("train", "evaluation.txt", "parts", "more")
FILES = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
EDITS = st.sampled_from(["longer", "as long", "removed", "added", "none"])


def test_own_data_must_not_change_while_a_stage_runs(folder):
    """Whichever file of whichever folder changes."""

    @settings(max_examples=60)
    @given(files=st.sets(FILES, min_size=1, max_size=4), edit=EDITS, chosen=st.integers(0, 3))
    def check(files, edit, chosen):
        shutil.rmtree("inputs/stories", ignore_errors=True)
        written = [Path("inputs/stories", f"{name}.jsonl") for name in sorted(files)]
        for path in written:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("some text")
            os.utime(path, (0, 0))
        one = written[chosen % len(written)]
        stage = Stage("kv_bench")
        if edit == "removed":
            one.unlink()
        elif edit == "added":
            one.with_suffix(".txt").write_text("")
        elif edit != "none":
            one.write_text("a longer text" if edit == "longer" else "same size")
        changed = pytest.raises(CommandFailed, match="inputs/stories")
        with nullcontext() if edit == "none" else changed:
            stage.write(part(Cache, same_ids=True))

    check()


@pytest.fixture
def edited(tmp_path, monkeypatch, capsys):
    """Stage train ran here, and its learning rate was edited before it wrote the result."""
    before_training(tmp_path / "run", 60.0, tokens=600)
    monkeypatch.chdir(tmp_path / "run")
    original = Path("params.yaml").read_text()
    copy_checkpoints = Snapshots.copy_checkpoints

    def edit_and_copy(snapshots, target):
        set_params(Path(), {"train.lr": 0.5})
        copy_checkpoints(snapshots, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Snapshots, "copy_checkpoints", edit_and_copy)
        assert run("train") == 1
    assert "undo the edit, or rm -r runs/train and run dvc repro again" in capsys.readouterr().err
    return original


def test_with_the_edit_undone_the_result_is_taken_without_training(edited, capsys):
    capsys.readouterr()
    assert run("train") == 2  # the edited value would be another run
    assert "train.lr" in capsys.readouterr().err
    Path("params.yaml").write_text(edited)
    assert run("train") == 0
    printed = capsys.readouterr().out
    assert "resumed after update" in printed
    after_resuming = printed.partition("resumed after update")[2]
    assert "held-out loss" not in after_resuming  # nothing is trained or validated again
    assert not Path("runs/train").exists()
