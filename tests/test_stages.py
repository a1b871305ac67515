"""Each stage on a few stories in a temporary folder; then what a stage does when it cannot work, or its disk is full."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from tests.support.folders import write_stories
from tests.support.stages import ROOT, is_measured, plant, read, run, small_params
from tinylm.base.config import load_params, read_yaml
from tinylm.base.files import sha256
from tinylm.base.processes import exclusive_lock
from tinylm.model.checkpoint import load_model
from tinylm.model.describe import summary


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """The current folder: parameters and stories, and nothing that a stage made."""
    monkeypatch.chdir(tmp_path)
    plant(tmp_path, small_params())
    return tmp_path


def keys(value) -> set[str]:
    """Every key of nested objects."""
    if isinstance(value, dict):
        return set(value).union(*map(keys, value.values()))
    if isinstance(value, list):
        return set().union(*map(keys, value))
    return set()


def test_times_and_memory_are_in_files_of_their_own(finished_run):
    """Equal runs give equal bytes elsewhere: no seconds, rates, memory, date or machine."""
    for path in [*finished_run.glob("data/**/*.json"), *finished_run.glob("metrics/**/*.json")]:
        names = keys(read(path))
        timed = {name for name in names if name.endswith(("_s", "_mib"))}
        timed |= names & {"seconds", "conditions", "date", "speedup", "tokens/s"}
        file = path.relative_to(finished_run).as_posix()
        assert bool(timed) == is_measured(file), f"{file}: see is_measured"


@pytest.mark.parametrize(
    ("command", "path", "stage"),
    [
        ("vocab", "data/stories/train.jsonl", "download"),
        ("train", "data/vocab/tokenizer", "vocab"),
        ("evaluate", "models/config.json", "train"),
        ("kv_bench", "data/vocab/tokenizer", "vocab"),
        ("ckpt_bench", "data/vocab/tokenizer", "vocab"),
        ("seed_train 2", "data/vocab/tokenizer", "vocab"),
        ("seed_score 2", "data/seeds/2/config.json", "seed_train@2"),
        ("seeds", "data/figures/train.json", "train"),
    ],
)
def test_a_missing_input_names_the_stage_that_makes_it(empty, capsys, command, path, stage):
    assert run(command) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert path in line
    assert f"dvc repro {stage}" in line
    assert not (empty / "metrics").exists()
    assert not (empty / "models").exists()


def test_what_training_notes_of_its_optimizer_is_of_the_one_that_it_used(finished_run):
    optimizer = load_params(finished_run / "params.yaml")["train"]["optimizer"]
    assert optimizer == "muon"  # which keeps one number of a matrix, not two
    model, _ = load_model(finished_run / "models")
    noted = read(finished_run / "data/figures/train.json")["optimizer_bytes"]
    assert noted == summary(model, optimizer)["optimizer_bytes"]


def test_a_tokenizer_that_keeps_punctuation_keeps_stories_that_differ_in_it(tmp_path, monkeypatch):
    params = small_params()
    stories = [f"Story {number}, of a dog." for number in range(40)]
    params["data"] |= {"path": "stories", "train_stories": None}
    params["vocab"] |= {"tokenizer": "bpe", "max_size": 300}
    plant(tmp_path, params)
    write_stories(tmp_path / "stories/train.jsonl", stories)
    write_stories(tmp_path / "stories/test.jsonl", [story.replace(",", "") for story in stories])
    monkeypatch.chdir(tmp_path)
    assert run("download") == 0
    assert read(tmp_path / "data/figures/download.json")["dropped"]["in_evaluation"] == 0


def test_two_trainings_at_once_are_refused(finished_run, capsys, monkeypatch):
    monkeypatch.chdir(finished_run)
    before = (finished_run / "models/model.safetensors").read_bytes()
    with exclusive_lock("runs/train.lock", "training"):
        assert run("train") == 2
    assert "already running" in capsys.readouterr().err
    assert (finished_run / "models/model.safetensors").read_bytes() == before


FOLDERS = ("data", "models", "metrics", "plots", "report")
PIPELINE = read_yaml(ROOT / "dvc.yaml")["stages"]


def remove_outputs(stage: str) -> None:
    """As DVC does before it starts a stage."""
    for kind in ("outs", "metrics", "plots"):
        for entry in PIPELINE[stage].get(kind, []):
            path = Path(entry if isinstance(entry, str) else next(iter(entry)))
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def sums() -> dict[str, str]:
    """SHA-256 of the files in the folders of the pipeline, without those that tell of time."""
    files = [path for folder in FOLDERS for path in Path(folder).rglob("*") if path.is_file()]
    return {str(path): sha256(path) for path in files if not is_measured(path.as_posix())}


@pytest.mark.parametrize("stage", ["download", "vocab", "train", "evaluate", "report"])
def test_a_full_disk_leaves_whole_files_and_the_next_run_ends_as_usual(
    finished_run, tmp_path, monkeypatch, stage, capsys
):
    folder = tmp_path / "run"
    shutil.copytree(finished_run, folder, symlinks=True)
    monkeypatch.chdir(folder)
    expected = sums()
    remove_outputs(stage)
    fsync = os.fsync
    synced: list[int] = []

    def full_at_the_third_file(handle):  # each file is synced, and then its folder
        if len(synced) == 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        synced.append(handle)
        fsync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_at_the_third_file)
        assert run(stage) == 1
    (error,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("error: "))
    assert "/" in error  # the file
    assert sums().items() <= expected.items()  # and no temporary file
    assert run(stage) == 0
    assert sums() == expected
