"""Rows of the table of faults that are about snapshots; each test is named after its row."""

import json
import math
import os
import shutil
import signal

import pytest
import torch

from tinylm.base.config import InputError
from tinylm.host.command import CommandFailed, Interrupted
from tinylm.train import loop
from tinylm.train.loop import train
from tinylm.train.snapshot import FORMAT, Snapshots
from tinylm.train.trainer import Trainer, TrainingFailed

TENSORS = {"a": torch.arange(6.0).view(2, 3)}
PARTS = {"train.lr": 3e-4, "data/tokens/train.ids": "1f", "code": "a"}
PARTS |= {
    "arithmetic.threads": 2,
    "arithmetic.torch_level": "avx2",
    "arithmetic.trial_calculation": "8",
}


@pytest.fixture(autouse=True)
def ctrl_c():
    """As in a terminal: a test run in the background of a shell has inherited that Ctrl-C is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def saved(root, parts=PARTS, updates=(1, 2), **more):
    snapshots = Snapshots(root, parts, 1.0, **more)
    for update in updates:
        snapshots.save(update, TENSORS, {"updates": update})
    return snapshots


def everything(root):
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_fault_02_killed_while_a_snapshot_is_written(tmp_path):
    folder = saved(tmp_path).folder
    dead = folder / ".000000000003.4194304.tmp.safetensors"  # above the largest process id
    alive = folder / f".000000000003.{os.getpid()}.tmp.safetensors"
    for path in (dead, alive):
        path.write_bytes(b"half")
    assert Snapshots(tmp_path, PARTS, 1.0).latest()[1] == {"updates": 2}
    assert not dead.exists()
    assert alive.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_fault_03_a_signal_ends_the_run_after_its_update(
    tmp_path, new_model, new_batches, held_out, new_settings, number
):
    def run(snapshots, kill_at=None):
        torch.manual_seed(11)
        model = new_model(dropout=0.2)

        def sample(update, _):
            if update == kill_at:
                signal.raise_signal(number)
            return str(update)

        settings = new_settings(tokens=2500, sample_every=4)
        return model.state_dict(), train(
            model, new_batches(), held_out, settings, on_sample=sample, snapshots=snapshots
        )

    whole, expected = run(None)
    before = signal.getsignal(number)
    with pytest.raises(
        Interrupted, match=r"after update 8, .*snapshot written: run the same command"
    ) as caught:
        run(Snapshots(tmp_path, PARTS, 1e9), kill_at=8)
    assert caught.value.number == number
    assert signal.getsignal(number) is before
    weights, result = run(Snapshots(tmp_path, PARTS, 1e9, "require"))
    assert result.curves.samples == [list(s) if s[0] <= 8 else s for s in expected.curves.samples]
    assert result.curves.updates == expected.curves.updates
    assert all(torch.equal(tensor, weights[name]) for name, tensor in whole.items())


def test_fault_03_the_second_ctrl_c_ends_at_once(
    tmp_path, new_model, new_batches, held_out, new_settings, monkeypatch
):
    monkeypatch.setattr("tinylm.host.command._ONE_PRESS_S", -1.0)

    def sample(update, _):
        for _ in range(2 if update else 0):
            signal.raise_signal(signal.SIGINT)
        return ""

    with pytest.raises(KeyboardInterrupt):
        train(
            new_model(), new_batches(), held_out, new_settings(sample_every=4), on_sample=sample,
            snapshots=Snapshots(tmp_path / "runs", PARTS, 1e9),
        )  # fmt: skip
    assert everything(tmp_path / "runs") == {}


def test_fault_03_one_press_that_a_wrapper_doubles_counts_once(
    tmp_path, new_model, new_batches, held_out, new_settings
):
    def sample(update, _):
        for _ in range(2 if update else 0):
            signal.raise_signal(signal.SIGINT)
        return ""

    settings, snapshots = new_settings(sample_every=4), Snapshots(tmp_path, PARTS, 1e9)
    with pytest.raises(Interrupted):
        train(new_model(), new_batches(), held_out, settings, on_sample=sample, snapshots=snapshots)


def test_fault_07_killed_after_the_last_update(
    tmp_path, new_model, new_batches, held_out, new_settings, monkeypatch
):
    settings, models, samples = new_settings(tokens=1500, patience=50), [], []

    def run():
        model = new_model()
        result = train(
            model, new_batches(), held_out, settings, on_sample=lambda *at: samples.append(at) or "",
            snapshots=Snapshots(tmp_path, PARTS, 1e9),
        )  # fmt: skip
        models.append((model.state_dict(), result))

    run()
    monkeypatch.setattr(Trainer, "update", None)  # nothing is trained, measured or written again
    monkeypatch.setattr(loop, "split_loss", None)
    known = list(samples)
    run()
    assert samples == known
    (whole, first), (again, second) = models
    assert all(torch.equal(tensor, again[name]) for name, tensor in whole.items())
    assert (first.tokens, first.best_update) == (second.tokens, second.best_update)
    assert second.earlier_s >= second.train_s > 0


@pytest.mark.parametrize("kind", ["safetensors", "json"])
def test_fault_08_a_flipped_bit(tmp_path, capsys, kind):
    newest = saved(tmp_path).newest.with_suffix(f".{kind}")
    flip(newest)
    assert Snapshots(tmp_path, PARTS, 1.0).latest()[1] == {"updates": 1}
    assert f"warning: {newest}: " in capsys.readouterr().out


def test_fault_08_no_whole_snapshot_is_left(tmp_path, capsys):
    folder = saved(tmp_path).folder
    for path in folder.glob("*.safetensors"):
        path.write_bytes(b"")
    assert Snapshots(tmp_path, PARTS, 1.0).latest() is None
    told = capsys.readouterr().out
    assert told.count("its SHA-256 is not the one") == 2
    assert f"warning: {folder}: no whole snapshot of this run is left: starting anew" in told
    assert not list(folder.glob("0*"))


def test_fault_09_required_and_all_damaged(tmp_path):
    for path in saved(tmp_path).folder.glob("*.safetensors"):
        flip(path)
    (tmp_path / "done").mkdir()
    (tmp_path / "done" / "done.json").write_text("{}")
    before = everything(tmp_path)
    with pytest.raises(
        InputError,
        match=r"TINYLM_RESUME = 'require': no snapshot of this run in .*nothing was changed",
    ):
        Snapshots(tmp_path, PARTS, 1.0, "require").latest()
    assert everything(tmp_path) == before


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"train.lr": 1e-3}, "train.lr 0.0003 -> 0.001"),
        ({"data/tokens/train.ids": "2e"}, "data/tokens/train.ids changed"),
        ({"train.lr": 1e-3, "code": "b"}, "train.lr 0.0003 -> 0.001, code changed"),
        ({"a": 1, "b": 1, "c": 1, "d": 1}, "a None -> 1, b None -> 1, c None -> 1, 1 more"),
    ],
)
def test_fault_10_another_run_is_not_taken_up(tmp_path, capsys, changes, told):
    saved(tmp_path)
    assert Snapshots(tmp_path, {**PARTS, **changes}, 1.0).latest() is None
    assert capsys.readouterr().out == f"an unfinished run differs ({told}): starting anew\n"
    assert Snapshots(tmp_path, PARTS, 1.0).latest()[1] == {
        "updates": 2
    }  # going back, it is still there


OTHERWISE = {
    "code": ({"code": "b"}, "code changed"),
    "threads": ({"arithmetic.threads": 1}, "threads 2 -> 1"),
    "a level": (
        {"arithmetic.torch_level": "default", "arithmetic.trial_calculation": "9"},
        "torch_level avx2 -> def",
    ),
    "a name": ({"arithmetic.ranks": "7"}, "ranks None -> 7"),
    "both": ({"code": "b", "arithmetic.threads": 1}, "code changed, threads 2 -> 1"),
}


@pytest.mark.parametrize(("changes", "told"), OTHERWISE.values(), ids=OTHERWISE)
def test_fault_10_12_other_code_or_arithmetic_refuses_unless_forced(
    tmp_path, capsys, changes, told
):
    saved(tmp_path)
    other = {**PARTS, **changes}
    before = everything(tmp_path)
    said = rf"unfinished run of the same parameters and data, but since then: {told}.*; TINYLM_RESUME=force goes on"
    with pytest.raises(InputError, match=said):
        Snapshots(tmp_path, other, 1.0).latest()
    assert everything(tmp_path) == before
    forced = Snapshots(tmp_path, other, 1.0, "force")
    tensors, numbers = forced.latest()
    assert numbers == {"updates": 2}
    assert torch.equal(tensors["a"], TENSORS["a"])
    assert f"going on from it ({told}" in capsys.readouterr().out
    again = Snapshots(tmp_path, other, 1.0)
    assert again.latest()[1] == {"updates": 2}
    again.save(3, TENSORS, {"updates": 3})
    assert Snapshots(tmp_path, other, 1.0).latest()[1] == {"updates": 3}
    (mixed,) = (
        again.mixed
    )  # the run's results say what it was made of, however often it is taken up
    assert mixed.startswith(told)
    assert mixed.endswith(" after update 2")
    assert forced.mixed == again.mixed


def test_fault_10_another_run_in_between_lets_nothing_be_mixed(tmp_path):
    """Not the newest unfinished run is asked for its code, but the one of the same parameters and data."""
    saved(tmp_path)
    saved(tmp_path, {**PARTS, "train.lr": 1.0})
    with pytest.raises(InputError, match="code changed"):
        Snapshots(tmp_path, {**PARTS, "code": "b"}, 1.0).latest()


def test_fault_12_a_run_without_a_mark_of_its_arithmetic_refuses_unless_forced(tmp_path):
    """Of format 2, which held what `auto` had meant, and nothing of the arithmetic."""
    folder = saved(tmp_path, {**PARTS, "train.precision": "fp32", "train.processes": 1}).folder
    note = json.loads((folder / "run.json").read_text())
    old = {
        key: value
        for key, value in note.items()
        if not key.startswith("arithmetic.") and key != "order"
    }
    (folder / "run.json").write_text(json.dumps(old | {"format": 2, "since": "0.1.0"}))
    shutil.move(folder, tmp_path / "0123456789abcdef")
    now = {**PARTS, "train.precision": "auto", "train.processes": 1}
    with pytest.raises(InputError, match=r"but since then: format 2 -> 3; TINYLM_RESUME=force"):
        Snapshots(tmp_path, now, 1.0).latest()
    assert Snapshots(tmp_path, {**now, "train.processes": 2}, 1.0).latest() is None
    assert Snapshots(tmp_path, now, 1.0, "force").latest()[1] == {"updates": 2}


def test_fault_10_what_never_passed_over_does_not_refuse_later(tmp_path):
    saved(tmp_path)
    assert Snapshots(tmp_path, {**PARTS, "code": "b"}, 1.0, "never").latest() is None
    assert Snapshots(tmp_path, {**PARTS, "code": "c"}, 1.0).latest() is None


def test_fault_11_of_a_newer_format(tmp_path):
    note = saved(tmp_path).folder / "run.json"
    note.write_text(
        json.dumps({**json.loads(note.read_text()), "format": FORMAT + 1, "since": "9.4.0"})
    )
    shutil.move(note.parent, tmp_path / "0123456789abcdef")
    before = everything(tmp_path)
    for mode in ("auto", "force"):
        with pytest.raises(
            InputError, match=r"run.json: written by tinylm >= 9\.4\.0 \(snapshot format 4\)"
        ):
            Snapshots(tmp_path, PARTS, 1.0, mode).latest()
    assert everything(tmp_path) == before
    assert Snapshots(tmp_path, PARTS, 1.0, "never").latest() is None


def test_fault_18_the_step_the_rate_and_the_last_good_snapshot(
    tmp_path, new_model, new_batches, held_out, new_settings, monkeypatch
):
    update = Trainer.update

    def poisoned(self, batches):
        if self.updates == 5:
            with torch.no_grad():
                self.parameters[1].fill_(math.nan)
        return update(self, batches)

    monkeypatch.setattr(Trainer, "update", poisoned)
    snapshots = Snapshots(tmp_path, PARTS, 1e-9)
    with pytest.raises(
        TrainingFailed,
        match=r"^update 6: loss nan.* at learning rate .*last good snapshot: .*0005\.s",
    ):
        train(new_model(), new_batches(), held_out, new_settings(), snapshots=snapshots)
    assert Snapshots(tmp_path, PARTS, 1e9).latest()[1]["updates"] == 5


def test_fault_18_a_state_that_is_not_finite_is_never_kept(
    tmp_path, new_model, new_batches, held_out, new_settings, monkeypatch
):
    update = Trainer.update

    def overflowing(self, batches):
        found = update(self, batches)
        if self.updates == 4:
            with torch.no_grad():
                self.parameters[1].view(-1)[0] = math.inf
        return found

    monkeypatch.setattr(Trainer, "update", overflowing)
    snapshots = Snapshots(tmp_path, PARTS, 1e-9)
    with pytest.raises(
        TrainingFailed, match=r"^update 4: model\..* not finite.*last good snapshot: .*0003\.s"
    ):
        train(new_model(), new_batches(), held_out, new_settings(), snapshots=snapshots)
    assert Snapshots(tmp_path, PARTS, 1e9).latest()[1]["updates"] == 3


def test_fault_18_a_held_out_loss_that_is_no_number(
    new_model, new_batches, held_out, new_settings, monkeypatch
):
    monkeypatch.setattr(loop, "split_loss", lambda *_: (math.nan, 7))
    with pytest.raises(
        TrainingFailed,
        match=r"^update 0: held-out loss nan: not finite.*no snapshot was written yet$",
    ):
        train(new_model(), new_batches(), held_out, new_settings())


def test_fault_19_out_of_memory_names_the_mini_batch(
    new_model, new_batches, held_out, new_settings, monkeypatch
):
    def full(*_):
        raise RuntimeError(
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"
        )

    monkeypatch.setattr(Trainer, "update", full)
    expected = r"^update 1: out of memory in a mini-batch of 8 x \d+ tokens; lower train.batch_size = 8 or model.context"
    with pytest.raises(CommandFailed, match=expected):
        train(new_model(), new_batches(), held_out, new_settings())
