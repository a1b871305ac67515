"""An edit while stage train runs loses nothing: its finished run is kept until the result is recorded."""

from pathlib import Path

import pytest
import yaml

from tests.support.stages import before_training, run
from tinylm.train.snapshot import Snapshots


def set_lr(value: float) -> None:
    params = yaml.safe_load(Path("params.yaml").read_text())
    params["train"]["lr"] = value
    Path("params.yaml").write_text(yaml.safe_dump(params))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Stage train ran here, and its learning rate was edited before it wrote the result."""
    before_training(tmp_path / "run", 60.0, tokens=600)
    monkeypatch.chdir(tmp_path / "run")
    original = Path("params.yaml").read_text()
    copy_checkpoints = Snapshots.copy_checkpoints

    def edit_and_copy(snapshots, target):
        set_lr(0.5)
        copy_checkpoints(snapshots, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Snapshots, "copy_checkpoints", edit_and_copy)
        assert run("train") == 1
    return original


def test_with_the_edit_undone_the_result_is_taken_without_training(folder, capsys):
    capsys.readouterr()
    assert run("train") == 2  # the edited value would be another run
    assert "train.lr" in capsys.readouterr().err
    Path("params.yaml").write_text(folder)
    assert run("train") == 0
    printed = capsys.readouterr().out
    assert "resumed after update" in printed
    after_resuming = printed.partition("resumed after update")[2]
    assert "held-out loss" not in after_resuming  # nothing is trained or validated again
    assert not Path("runs/train").exists()
