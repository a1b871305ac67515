"""A stage whose inputs are edited while it runs fails, so that DVC records no wrong result."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from tinylm.base import code
from tinylm.host import stage_inputs
from tinylm.host.command import guard

PIPELINE = {"stages": {"vocab": {"params": ["data"], "deps": ["stages/vocab.py", "data/stories"]}}}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with a pipeline of one stage, which this process seems to run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(code, "ROOT", tmp_path)
    Path("stages").mkdir()
    Path("stages/vocab.py").write_text("a")
    Path("dvc.yaml").write_text(yaml.safe_dump(PIPELINE))
    write_params("mine.txt")
    spec = SimpleNamespace(name="stages.vocab")
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", spec, raising=False)


def write_params(path: str, lr: float = 1.0) -> None:
    Path("params.yaml").write_text(yaml.safe_dump({"data": {"path": path}, "train": {"lr": lr}}))


def run(edit) -> int:
    def main() -> None:
        stage_inputs.refuse_edits(yaml.safe_load(Path("params.yaml").read_text()))
        edit()

    return guard(main)


@pytest.mark.parametrize(
    ("edit", "name"),
    [
        (lambda: write_params("other.txt"), "params.yaml: data"),
        (lambda: Path("params.yaml").write_text("data: ["), "params.yaml: data"),
        (lambda: Path("stages/vocab.py").write_text("b"), "the code"),
    ],
)
def test_an_edit_of_an_input_while_the_stage_runs_is_refused(capsys, edit, name):
    assert run(edit) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert name in line
    assert "run dvc repro again" in line


@pytest.mark.parametrize("edit", [lambda: None, lambda: write_params("mine.txt", lr=2.0)])
def test_what_is_no_input_of_the_stage_may_change(edit):
    assert run(edit) == 0
