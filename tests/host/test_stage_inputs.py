"""A stage whose inputs are edited while it runs fails, so that DVC does not record its result for the edited ones."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from tinylm.host import stage_inputs
from tinylm.host.command import guard

PIPELINE = {
    "stages": {
        "vocab": {"params": ["data"], "deps": ["code", "one.py", "${data.path}", "data/stories"]}
    }
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a pipeline of one stage, which this process seems to run."""
    monkeypatch.chdir(tmp_path)
    Path("dvc.yaml").write_text(yaml.safe_dump(PIPELINE))
    write_params("mine.txt")
    for name in ("code/a.py", "one.py", "mine.txt", "data/stories/a.json"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("a")
    monkeypatch.setattr(
        sys.modules["__main__"], "__spec__", SimpleNamespace(name="stages.vocab"), raising=False
    )
    return tmp_path


def write_params(path: str, lr: float = 1.0) -> None:
    Path("params.yaml").write_text(yaml.safe_dump({"data": {"path": path}, "train": {"lr": lr}}))


def run(edit) -> int:
    def main() -> None:
        stage_inputs.refuse_edits(yaml.safe_load(Path("params.yaml").read_text()))
        edit()

    return guard(main)


def grow() -> None:
    with open("mine.txt", "a") as handle:
        handle.write("more")


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (lambda: write_params("other.txt"), "params.yaml: section data and 1 more changed"),
        (lambda: Path("params.yaml").write_text("data: ["), "changed while stage vocab ran"),
        (lambda: Path("code/a.py").write_text("b"), "code/a.py changed"),
        (lambda: Path("code/b.py").write_text("b"), "code/b.py changed"),
        (lambda: Path("one.py").unlink(), "one.py changed"),
        (grow, "mine.txt changed"),
    ],
)
def test_an_edit_of_an_input_while_the_stage_runs_is_refused(folder, capsys, edit, named):
    assert run(edit) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert named in line
    assert line.endswith("run dvc repro again")


@pytest.mark.parametrize(
    "edit",
    [
        lambda: None, lambda: write_params("mine.txt", lr=2.0), lambda: Path("code/a.py").write_text("a"),
        lambda: Path("data/stories/a.json").unlink(), lambda: Path("two.py").write_text("b")
    ],
)  # fmt: skip
def test_what_is_no_input_of_the_stage_may_change(folder, edit):
    assert run(edit) == 0
