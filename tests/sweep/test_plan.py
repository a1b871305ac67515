"""What a sweep runs, what it refuses, and how its state is told."""

import json
import os
import re
import subprocess
import time

import pytest

from tests.support.clone import ROOT
from tinylm.base.config import InputError, parse_yaml
from tinylm.sweep import begin, halving, plan
from tinylm.sweep.plan import Sweep
from tinylm.sweep.recording import expanded

BASE = (ROOT / "params.yaml").read_text(encoding="utf-8")


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """A sweep of four runs in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    runs = plan.product({"train.lr": [0.1, 0.2]}, [1, 2])
    made = Sweep("s", "b" * 40, "c" * 40, "evaluate", runs, {"4": "too high"})
    made.folder.mkdir(parents=True)
    (made.folder / "sweep.json").write_text(json.dumps(vars(made)))
    return made


def test_values_are_those_of_dvc():
    axes = expanded(
        [
            "train.lr=1e-4,3e-4",
            "model.layers=range(2,5)",
            "train.compile=auto,true",
            "seeds.more=[2,3],[]",
        ]
    )
    assert axes == {
        "train.lr": [1e-4, 3e-4],
        "model.layers": [2, 3, 4],
        "train.compile": ["auto", True],
        "seeds.more": [[2, 3], []],
    }


@pytest.mark.parametrize(
    "text", ["train.lr", "+train.lr=3", "~train.lr", "train.lr=[1", "train.lr=glob(*)"]
)
def test_what_is_no_list_of_values_is_one_line(text):
    with pytest.raises(InputError, match=f"^-S {re.escape(text)}.*; allowed: KEY=VALUE,VALUE.*$"):
        expanded([text])


def test_all_settings_have_one_seed_before_the_next():
    runs = plan.product({"train.lr": [1, 2], "model.layers": [3]}, [5, 6])
    assert [tuple(run.values()) for run in runs] == [(1, 3, 5), (2, 3, 5), (1, 3, 6), (2, 3, 6)]


def test_parameters_keep_their_comments_and_only_the_values_change():
    values = {"train.lr": 1e-05, "seeds.more": [2], "train.patience": None, "train.compile": True}
    before, after = BASE.splitlines(), plan.params_text(BASE, values).splitlines()
    changed = [
        new.split("#")[0].split() for old, new in zip(before, after, strict=True) if old != new
    ]
    assert changed == [["compile:", "true"], ["lr:", "1e-05"], ["more:", "[2]"]] or changed == [
        ["lr:", "1e-05"], ["compile:", "true"], ["more:", "[2]"]
    ]  # fmt: skip
    assert parse_yaml("\n".join(after), "p")["train"]["lr"] == 1e-5


def test_a_wrong_value_is_told_and_a_wrong_key_refused():
    assert plan.problem(BASE, {"model.layers": 2}) == ""
    assert plan.problem(BASE, {"model.layers": 0}).startswith(
        "params.yaml: model.layers = 0; allowed: a whole number"
    )
    with pytest.raises(InputError, match=r"^-S: train\.lrr is unknown"):
        plan.problem(BASE, {"train.lrr": 1})


def test_states_are_told_and_what_failed_is_begun_again(sweep):
    sweep.end(1, state=plan.DONE, held_out=1.25, seconds=2.0)
    sweep.end(2, state=plan.FAILED, why="no space left", seconds=1.0)
    sweep.end(4, state=plan.FAILED, why="too high")
    lines = plan.table(plan.open_sweep(None), sweep.numbers).splitlines()
    assert lines[1].split() == ["1", "lr=0.1", "seed=1", "done", "1.2500", "2.0", "s"]
    assert lines[2].endswith("no space left")
    assert lines[3].split()[3] == plan.WAITING
    assert plan.summary(sweep) == "s: 1 done, 2 failed, 1 waiting of 4 runs, about 2 s left"
    assert sweep.begin_again() == [2, 3]
    assert plan.summary(sweep).startswith("s: 1 done, 1 failed, 2 waiting")


def test_a_run_whose_log_is_locked_is_running(sweep):
    from tinylm.host.processes import locked

    with locked(sweep.run(3) / "log.txt"):
        assert plan.now(sweep, 3) == plan.RUNNING
    assert plan.now(sweep, 3) == plan.WAITING


def test_a_sweep_is_found_from_a_slot_and_names_are_checked(sweep, monkeypatch):
    assert plan.new_name(None) == "sweep-1"
    for name, said in (("a b", "allowed: letters"), ("s", "--resume s goes on")):
        with pytest.raises(InputError, match=said):
            plan.new_name(name)
    with pytest.raises(InputError, match=r"no sweep t; allowed: s$"):
        plan.open_sweep("t")
    slot = sweep.folder / "slots/here-0"
    slot.mkdir(parents=True)
    folder = sweep.folder
    monkeypatch.chdir(slot)
    assert plan.open_sweep("s").folder == folder


def test_a_slow_run_is_named_once_and_a_waiting_one_never(sweep, capsys):
    from tinylm.host.processes import locked
    from tinylm.host.progress import Progress
    from tinylm.sweep.engines import _Watch

    for number in (3, 4):
        (sweep.run(number)).mkdir()
        (sweep.run(number) / "progress.json").write_text("{}")
        os.utime(sweep.run(number) / "progress.json", (time.time() - 95,) * 2)
    watch = _Watch(sweep, Progress("s", 4, "runs", 1e9))
    sweep.end(1, state=plan.DONE, held_out=1.0, seconds=20.0)
    assert watch.look()
    assert not watch.look()
    with locked(sweep.run(3) / "log.txt"):
        watch.name_slow()
        watch.name_slow()
    said = capsys.readouterr().out
    assert said.count("run 3 (lr=0.1 seed=2): nothing new for 95 s; the others took 20 s") == 1
    assert "run 4" not in said


def test_options_of_slurm():
    assert begin.slurm_options(["time=60", "gres=gpu:1"], 2) == {
        "cpus_per_task": 2,
        "timeout_min": 60,
        "slurm_additional_parameters": {"requeue": True, "gres": "gpu:1"},
    }
    for word in ("gpu", "=1", "time=1h"):
        with pytest.raises(InputError, match=f"^--slurm {word}; allowed"):
            begin.slurm_options([word], 1)


@pytest.mark.parametrize(("words", "said"), [
    (["--to", "kv_bench", "-S", "train.lr=1,2", "--workers", "2"], "measures times"),
    (["--to", "vocab", "-S", "train.lr=1,2"], "--to vocab; allowed: train | evaluate"),
    (["--seeds", "1,1"], "--seeds 1,1; allowed"),
    ([], "nothing to try; allowed: -S KEY=VALUE,VALUE or --seeds"),
    (["-S", "train.lr=1e-3,0.001", "--seeds", "1,2"], "train.lr=0.001 train.seed=1 would run twice; allowed: each"),
    (["--seeds", "1", "--workers", "0"], "--workers 0; allowed: more than 0, at most 10,000"),
    (["-S", "model.layers=0,-1"], "model.layers = 0; allowed"),
    (["--seeds", "1", "--slurm", "time=1"], "--slurm time=1 goes only with --on slurm"),
    (["--resume", "--seeds", "1"], "--resume does not go with --seeds, which is for a new sweep"),
    (["--status", "--to", "train"], "--status does not go with --to"),
    (["-S", "train.seed=range(1,1000000000)"], "train.seed=range.1,1000000000.; allowed: a range of at most 9999"),
    (["-S", "train.seed=range(1,9,0)"], "train.seed=range.1,9,0.; allowed: a range of at most 9999"),
    (["-S", "train.seed=range(1,9000)", "-S", "model.layers=range(1,9000)"], "80982001 runs; allowed: at most 9999"),
])  # fmt: skip
def test_a_sweep_that_cannot_run_is_refused_in_one_line_and_writes_nothing(
    words, said, tmp_path, monkeypatch, capsys
):
    from tinylm.cli.command import main

    for name in ("params.yaml", "dvc.yaml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", *words]) == 2
    error = capsys.readouterr().err
    assert re.search(said, error)
    assert error.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_of_equal_runs_the_worse_are_stopped(sweep):
    pytest.importorskip("optuna")
    trials = halving.trials(sweep.folder, 4, 10, 2)
    halved = Sweep(**(vars(sweep) | {"halving": [10, 2], "trials": trials}))
    assert not any(
        halving.hopeless(halved, 1, update, 2.0 - update / 100) for update in (5, 10, 20)
    )
    assert not halving.hopeless(halved, 2, 5, 9.0)  # before the first rung
    assert halving.hopeless(halved, 2, 10, 9.0)
    assert not halving.hopeless(halved, 3, 10, 1.0)
    assert not halving.hopeless(sweep, 2, 10, 9.0)
