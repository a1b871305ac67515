import itertools
import json
import os
import time

import pytest
import torch
from safetensors.torch import load_file

from tests.support.cut_off import CutOff, Dying
from tinylm.base.config import InputError
from tinylm.train.loop import train
from tinylm.train.schedules import EpochCheckpoints
from tinylm.train.snapshot import Snapshots, fingerprint

TENSORS = {"a": torch.arange(6.0).view(2, 3), "random.cpu": torch.arange(5, dtype=torch.uint8)}


SETTINGS = {
    "adamw": {"optimizer": "adamw"},
    "muon": {"optimizer": "muon"},
    "accumulation": {"accumulation": 3, "tokens": 9000},
    "recompute": {"recompute": "blocks"},
    "bf16": {"precision": "bf16"},
    "torch's attention": {"attention": "torch", "precision": "bf16"},
    "compiled": {"compile": "true", "layout": "stream"},
    "stream": {"layout": "stream"},
    "windows": {"layout": "windows"},
    "stop_after": {"tokens": 9000, "stop_after": 2500},
    "early stopping": {
        "patience": 2,
        "lr": 0.3,
        "schedule": "constant",
        "validate_every": 3,
        "tokens": 4000,
    },
}


# Settings die after the first and the second snapshot in turn.
@pytest.mark.parametrize(
    ("changes", "dies"), zip(SETTINGS.values(), itertools.cycle([1, 2])), ids=SETTINGS
)
def test_a_resumed_run_is_bit_identical(
    tmp_path, new_model, new_batches, held_out, new_settings, changes, dies
):
    settings = new_settings(**{"tokens": 2500, "validate_every": 5, "sample_every": 4, **changes})

    def run(snapshots):
        torch.manual_seed(11)  # the stage seeds the same before both
        model = new_model(settings, dropout=0.2)
        sample = lambda update, tokens: f"{update} {float(model.embedding.detach().sum()):.9f}"  # noqa: E731
        batches = new_batches(layout=settings.layout)
        scored = lambda: held_out(settings.layout)  # noqa: E731
        result = train(model, batches, scored, settings, on_sample=sample, snapshots=snapshots)
        return model.state_dict(), result

    whole, expected = run(None)
    with pytest.raises(CutOff):
        run(Dying(tmp_path, {"x": 1}, 1.0, every=3, dies=dies))
    torch.rand(7)  # another process: other random numbers were drawn
    weights, result = run(Snapshots(tmp_path, {"x": 1}, 1e9))
    assert len(result.curves.updates) > 3 * dies
    for name, tensor in whole.items():
        assert torch.equal(tensor, weights[name]), name
    for name, curve in vars(expected.curves).items():
        assert [
            tuple(p) if isinstance(p, list) else p for p in getattr(result.curves, name)
        ] == curve, name
    assert result.best_update == expected.best_update
    assert result.stopped_early == expected.stopped_early


def test_snapshots_come_back_as_written_and_the_last_two_stay(tmp_path):
    snapshots = Snapshots(tmp_path, {"lr": 1e-3}, 1.0)
    for update in (3, 20, 100):
        snapshots.save(update, TENSORS, {"updates": update})
    tensors, numbers = Snapshots(tmp_path, {"lr": 1e-3}, 1.0).latest()
    assert numbers == {"updates": 100}
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)
    assert len(list(tmp_path.rglob("*.safetensors"))) == 2


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "gone", "json"])
def test_a_damaged_snapshot_is_named_and_the_one_before_is_taken(tmp_path, capsys, damage):
    snapshots = Snapshots(tmp_path, {"x": 1}, 1.0)
    for update in (1, 2):
        snapshots.save(update, TENSORS, {"updates": update})
    newest = snapshots.folder / "000000000002.safetensors"
    content = bytearray(newest.read_bytes())
    if damage == "json":
        newest.with_suffix(".json").write_text('{"sha')
    elif damage == "gone":
        newest.unlink()
    else:
        content[-3] ^= 1
        newest.write_bytes({"truncated": content[:-9], "flipped": content, "empty": b""}[damage])
    _, numbers = snapshots.latest()
    assert numbers == {"updates": 1}
    assert "000000000002" in capsys.readouterr().out


def test_tensors_without_their_json_do_not_exist(tmp_path):
    snapshots = Snapshots(tmp_path, {"x": 1}, 1.0)
    snapshots.save(1, TENSORS, {"updates": 1})
    next(snapshots.folder.glob("[0-9]*.json")).unlink()
    assert snapshots.latest() is None


def test_modes(tmp_path):
    Snapshots(tmp_path, {"x": 1}, 1.0).save(1, TENSORS, {"updates": 1})
    assert Snapshots(tmp_path, {"x": 1}, 1.0, "require").latest() is not None
    with pytest.raises(InputError, match="require"):
        Snapshots(tmp_path, {"x": 2}, 1.0, "require").latest()
    with pytest.raises(InputError, match=r"auto \| require \| force \| never"):
        Snapshots(tmp_path, {"x": 1}, 1.0, "sometimes")


def test_what_was_refused_is_not_taken_up_later(tmp_path):
    for update in (20, 30):
        Snapshots(tmp_path, {"x": 1}, 1.0).save(update, TENSORS, {"updates": update})
    anew = Snapshots(tmp_path, {"x": 1}, 1.0, "never")
    assert anew.latest() is None
    for update in (5, 10):
        anew.save(update, TENSORS, {"updates": update})
    assert Snapshots(tmp_path, {"x": 1}, 1.0).latest()[1] == {"updates": 10}


def test_a_damaged_note_of_another_run_is_passed_over(tmp_path):
    for number, text in enumerate(("{", "[]", "[1]")):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "run.json").write_text(text)
    assert Snapshots(tmp_path, {"x": 1}, 1.0).latest() is None


def test_at_most_three_runs_are_kept_and_a_finished_one_goes(tmp_path):
    for number in range(5):
        last = Snapshots(tmp_path, {"x": number}, 1.0)
        last.save(1, TENSORS, {"updates": 1})
    assert len(list(tmp_path.glob("*/run.json"))) == 3
    last.finish()
    Snapshots(tmp_path, {"x": 9}, 1.0).latest()
    assert not last.folder.exists()
    assert len(list(tmp_path.glob("*/run.json"))) == 2


@pytest.mark.parametrize("days", [-400, 400])
def test_fault_46_a_clock_that_jumps_deletes_no_run_of_its_own(tmp_path, days):
    """Folders that seem older or newer than they are: the order of the runs is counted, not dated."""
    for number in range(5):
        last = Snapshots(tmp_path, {"x": number}, 1.0)
        last.keep("0.5", TENSORS)
        last.save(1, TENSORS, {"updates": 1})
        for path in (*tmp_path.rglob("*"), *tmp_path.glob("*")):
            os.utime(path, (time.time() + (number + 1) * days * 86400,) * 2)
    assert {path.parent for path in tmp_path.glob("*/moments")} == {
        Snapshots(tmp_path, {"x": number}, 1.0).folder for number in (2, 3, 4)
    }
    again = Snapshots(
        tmp_path, {"x": 2}, 1.0
    )  # the oldest of three goes on, and is the newest then
    assert again.latest() is not None
    again.save(2, TENSORS, {"updates": 2})
    Snapshots(tmp_path, {"x": 9}, 1.0).save(1, TENSORS, {"updates": 1})
    assert again.latest()[1] == {"updates": 2}
    assert not Snapshots(tmp_path, {"x": 3}, 1.0).folder.exists()
    again.copy_kept(tmp_path / "models")
    assert [path.name for path in (tmp_path / "models/moments").glob("*.safetensors")] == [
        "0.5.safetensors"
    ]


@pytest.mark.parametrize(
    "note", ["{", "[]", '{"order": "x"}', '{"order": 1e300}', '{"order": 1e999}', '{"mixed": 3}']
)
def test_fault_46_a_note_that_cannot_be_read_is_the_oldest_run(tmp_path, note):
    for number in range(3):
        Snapshots(tmp_path, {"x": number}, 1.0).save(1, TENSORS, {"updates": 1})
    damaged = Snapshots(tmp_path, {"x": 2}, 1.0).folder
    (damaged / "run.json").write_text(note)
    Snapshots(tmp_path, {"x": 3}, 1.0).save(1, TENSORS, {"updates": 1})
    assert not damaged.exists()
    assert len(list(tmp_path.glob("*/run.json"))) == 3


def test_due_after_its_interval(tmp_path):
    assert Snapshots(tmp_path, {}, 1e-9).due()
    assert not Snapshots(tmp_path, {}, 1e9).due()


def test_fingerprint_has_settings_data_and_code(tmp_path, new_settings):
    data = tmp_path / "ids"
    data.write_text("1")
    first, second = (
        fingerprint({"train": new_settings()}, [str(data)], code) for code in ("one", "other")
    )
    assert first["train.lr"] == 1e-2
    json.dumps(first)
    assert [key for key in first if first[key] != second[key]] == ["code"]
    data.write_text("2")
    third = fingerprint({"train": new_settings()}, [str(data)], "one")
    assert [key for key in first if first[key] != third[key]] == [str(data)]


def kept(folder):
    return {path.stem: load_file(path) for path in folder.rglob("moments/*.safetensors")}


@pytest.mark.parametrize("accumulation", [1, 3])
def test_weights_are_kept_at_the_first_update_that_reaches_the_epoch(
    tmp_path, new_model, new_batches, held_out, new_settings, accumulation
):
    model, batches, seen = new_model(), new_batches(), {0: {}}
    settings = {
        "tokens": None,
        "epochs": 2.0,
        "keep_epochs": (2.0, 0.5, 1.0),
        "accumulation": accumulation,
    }

    def remember(update, tokens):
        seen[tokens] = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        return ""

    snapshots = Snapshots(tmp_path / "run", {"x": 1}, 1e9)
    train(
        model,
        batches,
        held_out,
        new_settings(sample_every=1, **settings),
        on_sample=remember,
        snapshots=snapshots,
    )
    snapshots.copy_kept(tmp_path / "models")
    found = kept(tmp_path / "models")
    last = max(seen)
    if accumulation == 1:
        assert last == 2 * batches.tokens_per_epoch
        assert set(found) == {"0.5", "1", "2"}
    else:  # three mini-batches more would pass the budget, and 1.95 epochs are not 2
        assert last < 1.96 * batches.tokens_per_epoch
        assert set(found) == {"0.5", "1"}
    for epoch, weights in found.items():
        reached = min(
            (t for t in seen if t >= float(epoch) * batches.tokens_per_epoch), default=last
        )
        assert weights.keys() == seen[reached].keys()
        assert all(torch.equal(tensor, seen[reached][name]) for name, tensor in weights.items()), (
            epoch
        )


def test_an_epoch_is_almost_reached_to_within_two_per_cent():
    chosen = EpochCheckpoints((0.5, 1.0), 1000, 1000)
    assert chosen.almost_reached(980, 1000) == [1.0]
    assert chosen.almost_reached(979, 1000) == []
    assert chosen.almost_reached(1000, 1000) == []
    assert chosen.almost_reached(495, 499) == []


def test_an_epoch_of_no_token_is_refused():
    with pytest.raises(
        InputError, match=r"train.keep_epochs holds 1e-09; allowed: at least one token"
    ):
        EpochCheckpoints((1e-9, 1.0), 1000, 1000)


@pytest.mark.parametrize("dies", [1, 2, 4])
def test_a_resumed_run_keeps_the_same_weights(
    tmp_path, new_model, new_batches, held_out, new_settings, dies
):
    size = new_batches().tokens_per_epoch
    settings = new_settings(tokens=None, epochs=1.0, keep_epochs=(0.1, 0.3, 0.55, 0.9, 1.0))

    def run(snapshots, folder):
        torch.manual_seed(11)
        train(new_model(dropout=0.2), new_batches(), held_out, settings, snapshots=snapshots)
        snapshots.copy_kept(folder)
        return {path.name: path.read_bytes() for path in (folder / "moments").glob("*.safetensors")}

    expected = run(Snapshots(tmp_path / "whole", {"x": 1}, 1e9), tmp_path / "one")
    with pytest.raises(CutOff):
        run(Dying(tmp_path / "cut", {"x": 1}, 1.0, every=5, dies=dies), tmp_path / "two")
    assert not (tmp_path / "two").exists()
    torch.rand(7)
    (tmp_path / "two" / "moments").mkdir(parents=True)
    (tmp_path / "two" / "moments" / "7.safetensors").write_text(
        "of an earlier run with other settings"
    )
    again = Snapshots(tmp_path / "cut", {"x": 1}, 1e9)
    assert run(again, tmp_path / "two") == expected
    assert set(expected) == {f"{epoch:g}.safetensors" for epoch in settings.keep_epochs}
    assert size > 1000
    again.finish()
    assert Snapshots(tmp_path / "cut", {"x": 1}, 1e9).latest() is None
    assert kept(tmp_path / "cut") == {}


def test_an_epoch_beyond_the_end_is_refused_before_training(
    tmp_path, new_model, new_batches, held_out, new_settings
):
    model = new_model()
    snapshots = Snapshots(tmp_path, {"x": 1}, 1e9)
    half = round(0.5 * new_batches().tokens_per_epoch)
    for changes, most in (({"epochs": 2.0}, "2"), ({"epochs": 20.0, "stop_after": half}, "0.5")):
        settings = new_settings(tokens=None, keep_epochs=(0.25, 2.01), **changes)
        with pytest.raises(
            InputError,
            match=rf"keep_epochs holds 2\.01; allowed: at most {most}\d*, where this run ends",
        ):
            train(model, new_batches(), held_out, settings, snapshots=snapshots)
    assert all(
        torch.equal(tensor, new_model().state_dict()[name])
        for name, tensor in model.state_dict().items()
    )


def test_what_early_stopping_leaves_out_is_not_kept(
    tmp_path, new_model, new_batches, held_out, new_settings
):
    settings = {"lr": 0.3, "schedule": "constant", "validate_every": 3, "patience": 2}
    snapshots = Snapshots(tmp_path, {"x": 1}, 1e9)
    every = new_settings(tokens=None, epochs=50.0, keep_epochs=(0.1, 50.0), **settings)
    assert train(new_model(), new_batches(), held_out, every, snapshots=snapshots).stopped_early
    assert set(kept(tmp_path)) == {"0.1"}
