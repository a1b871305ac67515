"""tinylm check: each planted problem is found, by its key path, before any work."""

import os
import shutil
from collections import namedtuple
from pathlib import Path

import psutil
import pytest
import torch
import yaml

from tinylm.base.config import load_params
from tinylm.cli import check, estimates, main
from tinylm.host.params import SECTIONS, read_sections
from tinylm.presets.write import FOLDER

BASE = load_params(FOLDER / "storybook.yaml")
BASE["runtime"] |= {"threads": 1, "device": "auto"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder that has all a run needs."""
    monkeypatch.chdir(tmp_path)
    for name in (".git", ".dvc", BASE["data"]["path"]):
        Path(name).mkdir(parents=True)
    for section in ("vocab", "embedding"):
        path = Path(BASE[section]["path"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    Path("dvc.yaml").touch()
    plant({})
    return tmp_path


def changed(changes: dict) -> dict:
    """The storybook's parameters with {"section.key": value} changed."""
    params = {section: dict(values) for section, values in BASE.items()}
    for path, value in changes.items():
        section, _, key = path.partition(".")
        params[section][key] = value
    return params


def plant(changes: dict) -> None:
    Path("params.yaml").write_text(yaml.safe_dump(changed(changes)), encoding="utf-8")


def problems() -> list[str]:
    return [finding.problem for finding in check.find() if finding.problem]


def notes() -> list[str]:
    return [finding.note for finding in check.find() if finding.note]


def test_a_folder_in_order_has_no_problem(capsys):
    assert main(["check"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[: len(SECTIONS)]] == list(SECTIONS)
    assert all(line.endswith("ok") for line in lines)


def test_problems_of_all_sections_and_the_machine_are_shown_at_once(capsys):
    plant({"train.lr": -1, "model.layers": "four", "seeds.more": [BASE["train"]["seed"]]})
    Path(".dvc").rmdir()
    assert main(["check"]) == 2
    captured = capsys.readouterr()
    assert captured.out.count("problem: ") == 3
    for named in ("train.lr", "model.layers", ".dvc"):
        assert captured.out.count(named) == 1
    assert captured.err == "error: 3 problems, marked above\n"
    assert main(["check", "--quiet"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 3


@pytest.mark.parametrize("content", [b"", b"train: [\n", b"\xff\xfe", b"a: 1\na: 2\n"])
def test_params_that_cannot_be_read_do_not_hide_the_machine(content, capsys):
    Path("params.yaml").write_bytes(content)
    assert main(["check"]) == 2
    out = capsys.readouterr().out
    assert out.startswith("params.yaml ")
    assert out.count("problem: ") == 1
    assert "\ndisk" in out


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"data.path": "nowhere", "data.source": "local"}, "data.path = 'nowhere'"),
        (
            {"data.path": "../shared/tinystories", "data.source": "local"},
            "tinylm preset NAME --hub",
        ),
        ({"data.path": "a.xlsx", "data.source": "local"}, "a.xlsx"),
        ({"data.path": "a.csv", "data.source": "local"}, "data.column"),
        ({"vocab.path": "nowhere"}, "vocab.path = 'nowhere'"),
        ({"embedding.path": "nowhere"}, "embedding.path = 'nowhere'"),
        ({"embedding.path": ".git", "embedding.source": "file"}, "embedding.path"),
        ({"embedding.source": "file"}, BASE["embedding"]["path"]),
        ({"embedding.source": "file", "embedding.path": "v.vec"}, "embedding.width"),
        ({"runtime.device": "cuda"}, "runtime.device"),
        ({"runtime.logger": "wandb"}, "wandb"),
        ({"train.batch_size": 1_000_000, "vocab.max_size": 1000}, "train.batch_size"),
    ],
)
def test_a_planted_problem_is_the_only_one_found(changes, named, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(check.importlib.util, "find_spec", lambda name: None)
    memory = namedtuple("memory", "available")
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory(8 * 2**30))
    Path("a.xlsx").write_bytes(b"PK")
    Path("a.csv").write_text("id,story\n1,One day.\n")
    Path("v.vec").write_text("2 3\na 1 2 3\nb 1 2 3\n")
    plant(changes)
    (problem,) = problems()
    assert named in problem


def test_a_full_disk_is_a_problem(monkeypatch):
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10_000_000))
    (problem,) = problems()
    assert problem.startswith("disk")


def test_the_hub_and_too_many_threads_are_noted(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    plant({"data.source": "hub", "runtime.threads": 3})
    assert problems() == []
    hub, threads = notes()
    assert "download" in hub
    assert "runtime.threads" in threads


def test_a_folder_outside_of_git_and_dvc_is_named_and_one_above_is_found(folder, monkeypatch):
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    values = {finding.what: finding for finding in check.check_repository()}
    assert values["git"].value == values["dvc"].value == str(folder)
    (folder / ".git").rmdir()
    (folder / ".dvc").rmdir()
    assert len([finding for finding in check.check_repository() if finding.problem]) == 2


def test_files_without_permission_are_named(monkeypatch):
    Path("models").mkdir()
    real = os.access
    closed = ("models", BASE["data"]["path"])
    monkeypatch.setattr(
        os, "access", lambda path, mode: str(path) not in closed and real(path, mode)
    )
    data, models = problems()
    assert "data.path" in data
    assert "models" in models


def test_estimates_grow_with_stories_batch_and_depth():
    def sections(changes: dict) -> dict:
        return read_sections(changed(changes))[0]

    def memory(changes: dict) -> int:
        return estimates.memory_bytes(sections(changes), 1000)

    disk = estimates.disk_bytes(sections({"data.train_stories": 1000}), 1000)
    more = estimates.disk_bytes(sections({"data.train_stories": 2000}), 1000)
    assert more == disk + 3 * 1000 * estimates.STORY_BYTES
    small = memory({"train.batch_size": 2})
    assert memory({"train.batch_size": 4}) > small
    assert memory({"train.batch_size": 2, "train.recompute": "blocks"}) < small
    assert estimates.memory_bytes({}, 1000) is None


def test_quiet_prints_notes_and_one_line_with_the_time(capsys, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    plant({"runtime.threads": 3, "vocab.max_size": 100, "decode.top_k": 5})
    assert main(["check", "--quiet"]) == 0
    note, last = capsys.readouterr().out.splitlines()
    assert "runtime.threads" in note
    assert "tokens" in last
