"""The finished run on a few stories, measured again with other settings."""

import shutil
from pathlib import Path

import pytest

from tests.support.clone import set_params
from tests.support.stages import measure_here, read
from tinylm.base.config import load_params
from tinylm.bench import trials
from tinylm.params.params import Params, params_from


@pytest.fixture
def folder(finished_run, tmp_path, monkeypatch) -> Path:
    """The working directory: a copy of the run, in which a bench measures once."""
    shutil.copytree(finished_run, tmp_path / "run", symlinks=True)
    monkeypatch.chdir(tmp_path / "run")
    monkeypatch.setattr(trials, "TRIALS", 1)
    return tmp_path / "run"


@pytest.fixture
def params(folder) -> Params:
    return params_from(load_params())


@pytest.fixture
def change(folder):
    """change({"section.key": value}): params.yaml edited."""
    return lambda changes: set_params(folder, changes)


@pytest.fixture
def inline(monkeypatch):
    """Settings are measured in this process."""
    measure_here(monkeypatch)


def results(folder: Path, stage: str) -> list[dict]:
    """What a stage found, and its times."""
    return [read(folder / f"data/{kind}/{stage}.json") for kind in ("figures", "times")]
