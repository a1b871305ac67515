"""The runs of a sweep, the values that are refused, and how its state is shown."""

import json
import os
import signal
import subprocess
import sys
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.clone import ROOT
from tinylm.base import paths
from tinylm.base.command import CommandFailed
from tinylm.base.config import InputError, parse_yaml
from tinylm.base.files import read_json, write_json
from tinylm.base.processes import locked
from tinylm.cli.command import main
from tinylm.experiments import launch, new_sweep, sweeps, worker
from tinylm.experiments.git import git
from tinylm.experiments.new_sweep import expand_values
from tinylm.experiments.sweeps import Sweep

BASE = (ROOT / "params.yaml").read_text(encoding="utf-8")


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """A sweep of four runs in a repository of its own."""
    monkeypatch.chdir(tmp_path)
    git("init", "-q")
    runs = new_sweep.grid(["train.seed=1,2", "train.lr=0.1,0.2"])
    sweep = Sweep("s", "b" * 40, "c" * 40, "evaluate", runs)
    sweep.folder.mkdir(parents=True)
    (sweep.folder / "sweep.json").write_text(json.dumps(vars(sweep)))
    return sweep


def test_values_are_written_as_in_params():
    axes = expand_values(
        [
            "train.lr=1e-4,3e-4",
            "model.layers=2,3,4",
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


def test_a_run_has_the_parameters_of_the_folder_with_its_own_values():
    params = parse_yaml(
        sweeps.params_text(BASE, {"train.lr": 0.1, "model.layers": 9}), "params.yaml"
    )
    assert (params["train"].pop("lr"), params["model"].pop("layers")) == (0.1, 9)
    base = parse_yaml(BASE, "params.yaml")
    del base["train"]["lr"], base["model"]["layers"]
    assert params == base


@settings(max_examples=5, deadline=None)
@given(more=st.lists(st.integers(2, 4), unique=True), seed=st.integers(1, 4))
def test_a_run_may_have_any_seed_and_trains_no_further_ones(more, seed):
    base = BASE.replace("more: []", f"more: {more}")
    sweeps.check_values(base, {"train.seed": seed})
    params = parse_yaml(sweeps.params_text(base, {"train.seed": seed}), "params.yaml")
    assert (params["train"]["seed"], params["seeds"]["more"]) == (seed, [])


class IdleSlot:
    """A slot in which every run is done at once, with the same results."""

    def __init__(self, *_):
        """Of a sweep, with the function that would run a stage."""

    def enter(self, *_):
        losses = {"held_out_loss": 1.5, "held_out_loss_best": 1.25}
        write_json(paths.results("train"), losses)

    def reproduce(self, _):
        """Nothing is left to run."""

    def record(self, _):
        """DVC has no experiment to keep."""


def test_a_run_is_shown_with_the_loss_of_its_saved_weights(sweep, monkeypatch):
    monkeypatch.setattr(worker, "Slot", IdleSlot)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    worker.Worker(sweep).work()
    for number in range(1, len(sweep.runs) + 1):
        assert sweep.state(number)["held_out"] == 1.5
        assert read_json(sweep.run(number) / "metrics.json")["held_out_loss"] == 1.5


@given(st.text(" \t\n", max_size=3))
def test_an_empty_value_is_null(space):
    assert expand_values([f"train.patience={space}"]) == {"train.patience": [None]}


TEXTS = ("train.lr", "train.lr=],[", "train.lr=[1", "train.lr=1,1.0", "report.title=2026-11-28,x")


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_that_lists_no_values_is_refused(text):
    with pytest.raises(InputError):
        expand_values([text])


def test_code_that_git_does_not_track_is_refused_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text(BASE)
    (tmp_path / "tinylm").mkdir()
    (tmp_path / "tinylm/new.py").touch()
    subprocess.run(["git", "init", "-q"], check=True)
    with pytest.raises(InputError, match=r"^tinylm/new\.py: not tracked"):
        new_sweep.begin([{"train.lr": 0.1}], "evaluate")
    assert not (tmp_path / sweeps.FOLDER).exists()


def test_a_worker_outside_a_slot_refuses_and_touches_nothing(sweep, tmp_path):
    (tmp_path / "params.yaml").write_text("edited")
    (tmp_path / ".git/index.lock").touch()
    words = [sys.executable, "-m", "tinylm.experiments.worker", "s"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert (tmp_path / "params.yaml").read_text() == "edited"
    assert (tmp_path / ".git/index.lock").exists()


def test_states_are_shown_and_failures_are_retried(sweep):
    sweep.end(1, state=sweeps.DONE, held_out=1.25, seconds=2.0)
    sweep.end(2, state=sweeps.FAILED, why="no space left", seconds=1.0)
    lines = sweeps.table(sweeps.open_sweep(None)).splitlines()
    assert lines[1].split() == ["1", "seed=1", "lr=0.1", "done", "1.2500", "2.0", "s"]
    assert lines[2].endswith("no space left")
    assert lines[3].split()[3] == sweeps.WAITING
    assert sweeps.summary(sweep) == "s: 1 done, 1 failed, 2 waiting of 4 runs"
    sweep.retry_failed()
    assert sweep.left() == [2, 3, 4]


def test_a_run_whose_log_is_locked_is_running(sweep):
    with locked(sweep.run(3) / "log.txt"):
        assert sweeps.current_state(sweep, 3) == sweeps.RUNNING
    assert sweeps.current_state(sweep, 3) == sweeps.WAITING


def test_a_sweep_is_found_from_a_slot_and_names_are_checked(sweep, monkeypatch):
    assert sweeps.new_name(None) == "sweep-1"
    for name in ("a b", "s"):
        with pytest.raises(InputError, match="--name"):
            sweeps.new_name(name)
    with pytest.raises(InputError, match="expected one of s"):
        sweeps.open_sweep("t")
    folder = sweep.folder
    slot = folder / "slots/here-0"
    slot.mkdir(parents=True)
    monkeypatch.chdir(slot)
    assert sweeps.open_sweep("s").folder == folder


def test_a_name_is_new_if_no_sweep_has_it_and_no_experiment_is_left_of_one(monkeypatch):
    numbers = st.sets(st.integers(1, 4))

    @settings(max_examples=10, deadline=None)
    @given(present=numbers, removed=numbers)
    def check(present, removed):
        with tempfile.TemporaryDirectory() as folder, monkeypatch.context() as patch:
            patch.chdir(folder)
            git("init", "-q")
            tree = git("write-tree")
            for number in present:
                (sweeps.FOLDER / f"sweep-{number}").mkdir(parents=True)
            for number in removed:
                git("update-ref", f"refs/exps/{'a' * 2}/{'b' * 38}/sweep-{number}-0002", tree)
            git("update-ref", f"refs/exps/{'a' * 2}/{'b' * 38}/sweep-2", tree)  # not of a sweep
            new = next(n for n in range(1, 10) if n not in present | removed)
            assert sweeps.new_name(None) == f"sweep-{new}"
            assert sweeps.new_name("sweep") == "sweep"
            for number in present | removed:
                with pytest.raises(
                    InputError, match=f"^--name: (experiments named )?sweep-{number}[- ]"
                ):
                    sweeps.new_name(f"sweep-{number}")

    check()


def test_workers_that_die_before_any_run_ends_stop_the_sweep(sweep, monkeypatch):
    def start(sweep, slot, log):
        return subprocess.Popen(["sh", "-c", "exit 1"], stdout=log, stderr=log)

    monkeypatch.setattr(launch, "_start_worker", start)
    monkeypatch.setattr(launch, "POLL_S", 0.05)
    with pytest.raises(CommandFailed, match=r"slots/.*-0\.log"):
        launch.run_local(sweep, 1)


@pytest.mark.parametrize("package", ["experiments", "sweep"])  # sweep: of code of 0.4
def test_a_worker_is_the_one_of_the_slots_code(sweep, tmp_path, monkeypatch, package):
    module = tmp_path / "slot/tinylm" / package / "worker.py"
    module.parent.mkdir(parents=True)
    module.write_text("import sys; print(sys.argv[1])")
    for folder in (module.parent, module.parents[1]):
        (folder / "__init__.py").touch()
    monkeypatch.setattr(launch, "make_slot", lambda sweep, slot: None)
    with open(tmp_path / "log", "w") as log:
        worker = launch._start_worker(sweep, tmp_path / "slot", log)
    assert worker.wait(timeout=60) == 0
    assert (tmp_path / "log").read_text() == "s\n"


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["--seeds", "1,a"], "train.seed"),
        (["--seeds", "", "-S", "model.layers=2"], "train.seed"),
        (["-S", "train.lr="], "train.lr"),
        ([], "--seeds"),
        (["--seeds", "1", "--workers", "0"], "--workers"),
        (["-S", "model.layers=0,-1"], "model.layers"),
        (["--seeds", "1", "--slurm", "time=1"], "--slurm time=1"),
        (["--resume", "--seeds", "1"], "--resume continues a sweep; --seeds is for a new one"),
    ],
)
def test_a_sweep_that_cannot_run_is_one_line_and_writes_nothing(
    words, key, tmp_path, monkeypatch, capsys
):
    for name in ("params.yaml", "dvc.yaml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", *words]) == 2
    error = capsys.readouterr().err
    assert key in error
    assert error.count("\n") == 1
    assert not (tmp_path / "runs").exists()
