"""Snapshots on the disk, and which of them a run continues from."""

import json

import pytest
import torch
from safetensors.torch import load_file

from tinylm.base.config import InputError
from tinylm.train.loop import train
from tinylm.train.schedules import EpochCheckpoints
from tinylm.train.snapshot import Snapshots, fingerprint

TENSORS = {"a": torch.arange(6.0).view(2, 3), "random.cpu": torch.arange(5, dtype=torch.uint8)}
PARTS = {"train.lr": 3e-4, "data/tokens/train.ids": "1f", "code": "a", "threads": 2}


def saved(folder, parts=PARTS, updates=(1, 2)):
    snapshots = Snapshots(folder, parts, 1.0)
    for update in updates:
        snapshots.save(update, TENSORS, {"updates": update})
    return snapshots


def everything(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_snapshots_come_back_as_written_and_the_last_two_stay(tmp_path):
    saved(tmp_path, updates=(3, 20, 100))
    tensors, numbers = Snapshots(tmp_path, PARTS, 1.0).latest()
    assert numbers == {"updates": 100}
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)
    assert len(list(tmp_path.rglob("*.safetensors"))) == 2


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "gone", "json"])
def test_a_damaged_snapshot_is_named_and_the_one_before_is_taken(tmp_path, capsys, damage):
    newest = saved(tmp_path).newest
    content = bytearray(newest.read_bytes())
    if damage == "json":
        newest.with_suffix(".json").write_text('{"sha')
    elif damage == "gone":
        newest.unlink()
    else:
        content[-3] ^= 1
        newest.write_bytes({"truncated": content[:-9], "flipped": content, "empty": b""}[damage])
    snapshots = Snapshots(tmp_path, PARTS, 1.0)
    assert snapshots.latest()[1] == {"updates": 1}
    assert newest.stem in capsys.readouterr().out
    snapshots.save(2, TENSORS, {"updates": 2})
    assert Snapshots(tmp_path, PARTS, 1.0).latest()[1] == {"updates": 2}


def test_without_a_whole_snapshot_a_run_begins_anew(tmp_path):
    for path in saved(tmp_path).folder.glob("*.safetensors"):
        path.write_bytes(b"")
    assert Snapshots(tmp_path, {**PARTS, "code": "b"}, 1.0).parts["code"] == "b"
    assert Snapshots(tmp_path, PARTS, 1.0).latest() is None
    assert everything(tmp_path) == {}


def test_tensors_without_their_note_do_not_exist(tmp_path):
    snapshots = saved(tmp_path, updates=(1,))
    next(tmp_path.glob("[0-9]*.json")).unlink()
    assert snapshots.latest() is None


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"train.lr": 1e-3}, "train.lr 0.0003 -> 0.001"),
        ({"data/tokens/train.ids": "2e"}, "data/tokens/train.ids changed"),
        ({"code": "b", "threads": 1}, "code changed, threads 2 -> 1"),
        ({"a": 1, "b": 1, "c": 1, "d": 1}, "c None -> 1, 1 more"),
    ],
)
def test_another_runs_snapshot_is_refused_and_stays(tmp_path, changes, named):
    saved(tmp_path)
    before = everything(tmp_path)
    with pytest.raises(InputError) as refused:
        Snapshots(tmp_path, {**PARTS, **changes}, 1.0).latest()
    assert named in str(refused.value)
    assert f"rm -r {tmp_path}" in str(refused.value)
    assert everything(tmp_path) == before
    assert Snapshots(tmp_path, PARTS, 1.0).latest()[1] == {"updates": 2}


def test_a_run_that_is_done_leaves_nothing(tmp_path):
    snapshots = saved(tmp_path / "run")
    snapshots.keep("0.5", TENSORS)
    snapshots.finish()
    assert not (tmp_path / "run").exists()
    assert Snapshots(tmp_path / "run", {"x": 1}, 1.0).latest() is None


@pytest.mark.parametrize("note", ["{", "[]", "[1]"])
def test_a_damaged_note_of_the_run_is_passed_over(tmp_path, note):
    (tmp_path / "run.json").write_text(note)
    assert Snapshots(tmp_path, {"x": 1}, 1.0).latest() is None


def test_due_after_its_interval(tmp_path):
    assert Snapshots(tmp_path, {}, 1e-9).due()
    assert not Snapshots(tmp_path, {}, 1e9).due()


def test_the_fingerprint_has_settings_data_and_code(tmp_path, new_settings):
    data = tmp_path / "ids"
    data.write_text("1")
    first = fingerprint({"train": new_settings()}, [str(data)], "one")
    second = fingerprint({"train": new_settings()}, [str(data)], "other")
    assert first["train.lr"] == 1e-2
    json.dumps(first)
    assert [key for key in first if first[key] != second[key]] == ["code"]
    data.write_text("2")
    third = fingerprint({"train": new_settings()}, [str(data)], "one")
    assert [key for key in first if first[key] != third[key]] == [str(data)]


def kept(folder):
    return {path.stem: load_file(path) for path in folder.rglob("checkpoints/*.safetensors")}


@pytest.mark.parametrize("accumulation", [1, 3])
def test_weights_are_kept_at_the_first_update_that_reaches_the_epoch(
    tmp_path, new_model, new_batches, held_out, new_settings, accumulation
):
    model, batches, seen = new_model(), new_batches(), {0: {}}
    settings = new_settings(
        tokens=None,
        epochs=2.0,
        keep_epochs=(2.0, 0.5, 1.0),
        accumulation=accumulation,
        sample_every=1,
    )

    def remember(tokens):
        seen[tokens] = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    snapshots = Snapshots(tmp_path / "run", {"x": 1}, 1e9)
    train(model, batches, held_out, settings, on_sample=remember, snapshots=snapshots)
    (tmp_path / "models/checkpoints").mkdir(parents=True)
    (tmp_path / "models/checkpoints/7.safetensors").write_text("of an earlier run")
    snapshots.copy_checkpoints(tmp_path / "models")
    found = kept(tmp_path / "models")
    last = max(seen)
    if accumulation == 1:
        assert last == 2 * batches.tokens_per_epoch
        assert set(found) == {"0.5", "1", "2"}
    else:  # three mini-batches more would pass the budget, and 1.95 epochs are not 2
        assert last < 1.96 * batches.tokens_per_epoch
        assert set(found) == {"0.5", "1"}
    for epoch, weights in found.items():
        goal = float(epoch) * batches.tokens_per_epoch
        reached = min((tokens for tokens in seen if tokens >= goal), default=last)
        assert all(torch.equal(tensor, seen[reached][name]) for name, tensor in weights.items())


def test_an_epoch_is_almost_reached_to_within_two_per_cent():
    chosen = EpochCheckpoints((0.5, 1.0), 1000, 1000)
    assert chosen.almost_reached(980, 1000) == [1.0]
    assert chosen.almost_reached(979, 1000) == []
    assert chosen.almost_reached(1000, 1000) == []
    assert chosen.almost_reached(495, 499) == []


@pytest.mark.parametrize("epochs", [(1e-9, 1.0), (0.25, 2.01)])
def test_an_epoch_without_a_token_or_beyond_the_end_is_refused(epochs):
    with pytest.raises(InputError, match=r"train\.keep_epochs"):
        EpochCheckpoints(epochs, 1000, 2000)
