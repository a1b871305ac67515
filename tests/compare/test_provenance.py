"""Which results in the folder are current."""

import pytest
import yaml

from tests.support.lock import write_lock
from tinylm.base.config import InputError
from tinylm.compare.provenance import read_status

STAGES = {
    "train": (["train"], ["tinylm/model"], ["models"]),
    "evaluate": (["evaluate"], ["models"], ["data/evaluate.json"]),
    "report": (["report"], ["data"], ["report"]),
}
FILES = ("tinylm/model/ops.py", "models/a.json", "data/evaluate.json", "report/page.html")


def write(folder, name, text):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A DVC repository whose three stages have run; the working folder."""
    monkeypatch.chdir(tmp_path)
    for name in FILES:
        write(tmp_path, name, name)
    write(tmp_path, "params.yaml", yaml.safe_dump({name: {"key": 1} for name in STAGES}))
    write_lock(tmp_path, STAGES)
    return tmp_path


def edit(folder, section):
    params = yaml.safe_load((folder / "params.yaml").read_text("utf-8"))
    write(folder, "params.yaml", yaml.safe_dump(params | {section: {"key": 2}}))


def test_a_stage_with_other_parameters_is_stale(folder):
    assert read_status().stale == {}
    edit(folder, "report")
    assert read_status().stale.keys() == {"report"}
    edit(folder, "evaluate")
    assert "evaluate of params.yaml" in read_status().stale["evaluate"]


def test_another_file_in_an_output_makes_its_stage_stale(folder):
    write(folder, "models/b.json", "more")
    assert "train" in read_status().stale


def test_changed_code_is_named_and_makes_nothing_stale(folder):
    write(folder, "tinylm/model/ops.py", "x = 2")
    status = read_status()
    assert (status.stale, status.code) == ({}, {"train": "tinylm/model"})


def test_without_a_lock_there_is_no_status(folder):
    (folder / "dvc.lock").unlink()
    with pytest.raises(InputError, match=r"dvc\.lock"):
        read_status()
