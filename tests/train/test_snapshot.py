"""Snapshots on the disk, and which of them a run continues from."""

import pytest
import torch

from tinylm.base.config import InputError
from tinylm.train.snapshot import Snapshots, checkpoint_tokens, fingerprint_of

TENSORS = {"a": torch.arange(6.0).view(2, 3), "random.cpu": torch.arange(5, dtype=torch.uint8)}
PARTS = {"train.lr": 3e-4, "data/tokens/train.ids": "1f", "code": "a", "threads": 2}


def saved(folder, *updates):
    for update in updates:
        Snapshots(folder, PARTS, 1.0).save(TENSORS, {"updates": update})


def test_the_last_snapshot_comes_back_as_written(tmp_path):
    saved(tmp_path, 3, 20)
    tensors, numbers = Snapshots(tmp_path, PARTS, 1.0).latest()
    assert numbers == {"updates": 20}
    for name, tensor in TENSORS.items():
        assert torch.equal(tensors[name], tensor)


@pytest.mark.parametrize("content", [b"", b"no tensors", None])
def test_a_damaged_snapshot_is_refused_and_stays(tmp_path, content):
    saved(tmp_path, 1)
    path = tmp_path / "snapshot.safetensors"
    path.write_bytes(path.read_bytes()[:-9] if content is None else content)
    with pytest.raises(InputError, match=f"snapshot.*damaged.*rm -r {tmp_path}"):
        Snapshots(tmp_path, PARTS, 1.0).latest()
    assert path.exists()


def test_checkpoints_without_a_snapshot_are_removed(tmp_path):
    Snapshots(tmp_path, PARTS, 1.0).keep("0.5", TENSORS)
    assert Snapshots(tmp_path, PARTS, 1.0).latest() is None
    assert not list(tmp_path.rglob("*.safetensors"))


@pytest.mark.parametrize("key", PARTS)
def test_another_runs_snapshot_is_refused_by_what_changed_and_stays(tmp_path, key):
    saved(tmp_path, 1)
    with pytest.raises(InputError, match=f"{key}.*rm -r {tmp_path}"):
        Snapshots(tmp_path, PARTS | {key: "other"}, 1.0).latest()
    assert Snapshots(tmp_path, PARTS, 1.0).latest()[1] == {"updates": 1}


def test_a_run_goes_on_with_another_processor_after_a_warning(tmp_path, capsys):
    began = PARTS | {"cpu": "old"}
    Snapshots(tmp_path, began, 1.0).save(TENSORS, {"updates": 1})
    moved = Snapshots(tmp_path, began | {"cpu": "new"}, 1.0)
    assert moved.latest()[1] == {"updates": 1}
    assert "cpu old -> new" in capsys.readouterr().out


def test_snapshots_that_take_long_are_written_seldom(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("tinylm.train.snapshot.time.monotonic", lambda: now[0])
    monkeypatch.setattr(
        "tinylm.train.snapshot.write_bytes", lambda *_: now.__setitem__(0, now[0] + 10.0)
    )
    snapshots = Snapshots(tmp_path, PARTS, 30.0)
    due = []
    for seconds in (29, 1, 150, 60):  # writing takes ten seconds, 5 % of 200
        now[0] += seconds
        due.append(snapshots.due())
        if due[-1]:
            snapshots.save(TENSORS, {})
    assert due == [False, True, False, True]


@pytest.mark.parametrize("epochs", [(1e-9, 1.0), (0.25, 2.01)])
def test_an_epoch_without_a_token_or_beyond_the_end_is_refused(epochs):
    with pytest.raises(InputError, match=r"train\.keep_epochs"):
        checkpoint_tokens(epochs, 1000, 2000)


def test_the_fingerprint_has_settings_data_and_code(tmp_path, new_settings):
    data = tmp_path / "ids"
    data.write_text("1")
    first = fingerprint_of({"train": new_settings()}, [str(data)], "one")
    data.write_text("2")
    second = fingerprint_of({"train": new_settings(lr=1.0)}, [str(data)], "other")
    assert {key for key in first if first[key] != second[key]} == {"train.lr", str(data), "code"}
