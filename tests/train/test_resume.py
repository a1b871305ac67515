"""Snapshots on the disk; runs that are cut off or interrupted and resumed end with the same bits."""

import dataclasses
import itertools
import json
import math
import signal

import pytest
import torch
from safetensors.torch import load_file

from tests.support.folders import contents
from tinylm.base.command import Interrupted
from tinylm.base.config import InputError
from tinylm.kernels.train import linear
from tinylm.train import loop
from tinylm.train.loop import train
from tinylm.train.snapshot import Snapshots, checkpoint_tokens, fingerprint_of
from tinylm.train.trainer import Trainer, TrainingFailed
from tinylm.train.validation import split_loss

PARTS = {"x": 1}
SETTINGS = {
    "adamw, windows": {"optimizer": "adamw", "layout": "windows"},
    "muon, bf16, accumulation, stream": {
        "optimizer": "muon", "precision": "bf16", "accumulation": 2, "layout": "stream", "tokens": 5000,
        "recompute": "blocks"
    },
    "weights of epochs": {"tokens": None, "epochs": 1.0, "keep_epochs": (0.1, 0.3, 0.55, 1.0)},
    "early stopping": {
        "patience": 4, "optimizer": "adamw", "lr": 1.0, "warmup": 0.0, "schedule": "constant", "validate_every": 2,
        "tokens": 4000
    },
}  # fmt: skip


@pytest.fixture
def run(new_model, new_batches, held_out, new_settings, new_run):
    """run(snapshots, settings): (weights, result) of a run that is seeded as a stage is."""

    def start(snapshots, on_sample=None, **changes):
        usual = {"tokens": 2500, "validate_every": 5}
        settings = new_settings(**usual | changes)
        torch.manual_seed(11)
        model = new_model(settings, dropout=0.2)
        started = new_run(
            settings,
            model=model,
            batches=new_batches(layout=settings.layout),
            held_out=lambda: held_out(settings.layout),
            snapshots=snapshots,
        )
        result = train(started, sample_every=4, on_sample=on_sample)
        return model.state_dict(), result

    return start


def kept(folder):
    return {path.stem for path in (folder / "checkpoints").iterdir()}


@pytest.mark.parametrize("accumulation", [1, 3])
def test_a_checkpoint_at_the_end_of_the_run_has_its_last_weights(run, tmp_path, accumulation):
    """Though the run ends before its budget, where the next update would exceed it."""
    budget = {"tokens": None, "epochs": 0.5, "accumulation": accumulation}
    snapshots = Snapshots(tmp_path, PARTS, math.inf)
    weights, _ = run(snapshots, keep_epochs=(0.2, 0.2000001, 0.5), **budget)
    assert kept(tmp_path) == {"0.2", "0.2000001", "0.5"}
    last = load_file(tmp_path / "checkpoints/0.5.safetensors")
    for name, tensor in weights.items():
        assert torch.equal(tensor, last[name]), name


def test_early_stopping_says_which_checkpoints_it_did_not_reach(run, tmp_path, capsys):
    changes = SETTINGS["early stopping"] | {
        "tokens": None,
        "epochs": 9.0,
        "keep_epochs": (0.05, 9.0),
    }
    _, result = run(Snapshots(tmp_path, PARTS, math.inf), **changes)
    assert result.stopped_early
    assert kept(tmp_path) == {"0.05"}
    assert "no checkpoint after 9 epochs" in "".join(capsys.readouterr())


def assert_equal_runs(one, other):
    for name, tensor in one[0].items():
        assert torch.equal(tensor, other[0][name]), name
    results = []
    for _, result in (one, other):
        entries = dataclasses.asdict(result)
        del entries["train_s"]
        results.append(json.loads(json.dumps(entries)))
    assert results[0] == results[1]


class CutOff(Exception):
    pass


class Dying(Snapshots):
    """Writes a snapshot every 3 updates and dies after the N-th."""

    def __init__(self, folder, dies):
        super().__init__(folder, PARTS, 1.0)
        self.dies = dies
        self.updates = 0

    def due(self):
        self.updates += 1
        return self.updates % 3 == 0

    def save(self, *args):
        super().save(*args)
        if self.updates == 3 * self.dies:
            raise CutOff


# Settings die after the first and the second snapshot in turn.
@pytest.mark.parametrize(
    ("changes", "dies"), zip(SETTINGS.values(), itertools.cycle([1, 2])), ids=SETTINGS
)
def test_a_resumed_run_is_bit_identical(tmp_path, run, changes, dies):
    whole = run(Snapshots(tmp_path / "whole", PARTS, 1e9), **changes)
    with pytest.raises(CutOff):
        run(Dying(tmp_path / "cut", dies), **changes)
    torch.rand(7)  # another process has drawn other numbers
    resumed = run(Snapshots(tmp_path / "cut", PARTS, 1e9), **changes)
    assert len(resumed[1].curves.tokens) > 3 * dies
    assert_equal_runs(whole, resumed)
    if "patience" in changes:  # else the snapshot holds no best weights
        assert resumed[1].kept_best
        assert min(resumed[1].curves.held_out, key=lambda row: row[2])[0] <= 3 * dies
    checkpoints = "checkpoints/*.safetensors"
    assert contents(tmp_path / "cut", checkpoints) == contents(tmp_path / "whole", checkpoints)


def test_a_signal_ends_a_long_validation_and_the_run_continues(tmp_path, run, monkeypatch):
    whole = run(Snapshots(tmp_path / "whole", PARTS, 1e9))
    monkeypatch.setattr(Snapshots, "due", lambda _: True)
    validations = []

    def scored(*args):
        validations.append(args)
        if len(validations) == 2:  # after update 5
            signal.raise_signal(signal.SIGTERM)
        return split_loss(*args)

    monkeypatch.setattr(loop, "split_loss", scored)
    with pytest.raises(Interrupted, match="the validation after update 5"):
        run(Snapshots(tmp_path / "cut", PARTS, 1e9))
    assert Snapshots(tmp_path / "cut", PARTS, 1e9).latest()[1]["updates"] == 4
    assert_equal_runs(whole, run(Snapshots(tmp_path / "cut", PARTS, 1e9)))


def test_a_signal_in_the_first_validation_promises_no_snapshot(tmp_path, run, monkeypatch):
    def scored(*args):
        signal.raise_signal(signal.SIGTERM)
        return split_loss(*args)

    monkeypatch.setattr(loop, "split_loss", scored)
    with pytest.raises(Interrupted, match="start from the beginning"):
        run(Snapshots(tmp_path / "cut", PARTS, 1e9))
    assert not Snapshots(tmp_path / "cut", PARTS, 1e9).exist()


def test_a_state_that_is_not_finite_ends_the_run_and_is_never_saved(tmp_path, run, monkeypatch):
    launch = Trainer.launch

    def poisoned(self, batches):
        if self.updates == 5:
            self.parameters[1].data.view(-1)[0] = math.nan
        return launch(self, batches)

    monkeypatch.setattr(Trainer, "launch", poisoned)
    monkeypatch.setattr(Snapshots, "due", lambda _: True)
    with pytest.raises(TrainingFailed, match=r"^update 6: "):
        run(Snapshots(tmp_path, PARTS, 1e9))
    assert Snapshots(tmp_path, PARTS, 1e9).latest()[1]["updates"] == 5


def test_a_held_out_loss_that_is_not_finite_ends_the_run(run, monkeypatch):
    monkeypatch.setattr(loop, "split_loss", lambda *_: (math.nan, 7))
    with pytest.raises(TrainingFailed, match=r"^update 0: "):
        run(None)


TENSORS = {"a": torch.arange(6.0).view(2, 3), "random.cpu": torch.arange(5, dtype=torch.uint8)}
FINGERPRINT = {"train.lr": 3e-4, "data/tokens/train.ids": "1f", "code": "a", "threads": 2}


def saved(folder, *updates):
    for update in updates:
        Snapshots(folder, FINGERPRINT, 1.0).save(TENSORS, {"updates": update})


def test_the_last_snapshot_comes_back_as_written(tmp_path):
    saved(tmp_path, 3, 20)
    tensors, numbers = Snapshots(tmp_path, FINGERPRINT, 1.0).latest()
    assert numbers == {"updates": 20}
    for name, tensor in TENSORS.items():
        assert torch.equal(tensors[name], tensor)


@pytest.mark.parametrize("content", [b"", b"no tensors", None])
def test_a_damaged_snapshot_is_refused_and_stays(tmp_path, content):
    saved(tmp_path, 1)
    path = tmp_path / "snapshot.safetensors"
    path.write_bytes(path.read_bytes()[:-9] if content is None else content)
    with pytest.raises(InputError, match=f"snapshot.*damaged.*rm -r {tmp_path}"):
        Snapshots(tmp_path, FINGERPRINT, 1.0).latest()
    assert path.exists()


def test_checkpoints_without_a_snapshot_are_removed(tmp_path):
    Snapshots(tmp_path, FINGERPRINT, 1.0).keep("0.5", TENSORS)
    assert Snapshots(tmp_path, FINGERPRINT, 1.0).latest() is None
    assert not list(tmp_path.rglob("*.safetensors"))


@pytest.mark.parametrize("key", FINGERPRINT)
def test_another_runs_snapshot_is_refused_by_what_changed_and_stays(tmp_path, key):
    saved(tmp_path, 1)
    with pytest.raises(InputError, match=f"{key}.*rm -r {tmp_path}"):
        Snapshots(tmp_path, FINGERPRINT | {key: "other"}, 1.0).latest()
    assert Snapshots(tmp_path, FINGERPRINT, 1.0).latest()[1] == {"updates": 1}


def test_a_run_goes_on_with_another_processor_after_a_warning(tmp_path, capsys):
    began = FINGERPRINT | {"cpu": "old"}
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
    snapshots = Snapshots(tmp_path, FINGERPRINT, 30.0)
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


@pytest.mark.parametrize(
    ("dtype", "device"), [(torch.float64, "cpu"), (torch.bfloat16, "cpu"), (torch.float32, "meta")]
)
def test_what_another_library_sets_as_default_changes_no_weight(
    new_settings, new_model, new_batches, held_out, new_run, dtype, device
):
    def new():
        settings = new_settings(tokens=1200, validate_every=5, unknown=0.2)
        torch.manual_seed(11)
        return new_run(
            settings,
            model=new_model(settings),
            batches=new_batches(layout=settings.layout),
            held_out=lambda: held_out(settings.layout),
        )

    has_onednn = linear._has_onednn()
    expected = new()
    train(expected, sample_every=1000)
    changed = new()
    linear._has_onednn.cache_clear()  # tested again, under these defaults
    torch.set_default_dtype(dtype)
    torch.set_default_device(device)
    try:
        assert linear._has_onednn() == has_onednn
        train(changed, sample_every=1000)
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
    for name, tensor in expected.model.state_dict().items():
        assert changed.model.state_dict()[name].equal(tensor), name
