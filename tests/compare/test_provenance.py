"""What dvc.lock and git say of the files that lie here."""

import hashlib
import json
import subprocess

import pytest
import yaml

from tinylm.base.config import InputError
from tinylm.compare.provenance import output_md5, stale_stages, uncommitted

PARAMS = {"train": {"lr": 1}, "sweep": {"settings": [1, 2]}}


def md5(path):
    return hashlib.md5(path.read_bytes()).hexdigest()


def folder_md5(path):
    names = sorted(file.relative_to(path).as_posix() for file in path.rglob("*.*"))
    rows = [{"md5": md5(path / name), "relpath": name} for name in names]
    return hashlib.md5(json.dumps(rows, sort_keys=True).encode()).hexdigest() + ".dir"


def write(folder, name, text):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


def lock(folder, stages):
    write(folder, "dvc.lock", yaml.safe_dump({"schema": "2.0", "stages": stages}))


@pytest.fixture
def trained(tmp_path):
    write(tmp_path, "models/model.safetensors", "weights")
    write(tmp_path, "models/checkpoints/1.safetensors", "earlier weights")
    write(
        tmp_path,
        "models/checkpoints.json",
        "DVC sorts by text: moments.json before moments/1.safetensors",
    )
    lock(
        tmp_path, {"train": {"outs": [{"path": "models", "md5": folder_md5(tmp_path / "models")}]}}
    )
    return tmp_path


def test_an_output_as_it_was_written(trained):
    assert output_md5(trained, "train", "models") == folder_md5(trained / "models")


@pytest.mark.parametrize("file", ["model.safetensors", "more.json"])
def test_an_output_with_another_or_one_more_file_is_refused(trained, file):
    (trained / "models" / file).write_text("other")
    with pytest.raises(InputError, match="models"):
        output_md5(trained, "train", "models")


def test_an_output_that_no_stage_wrote_or_that_is_gone_is_refused(trained):
    (trained / "models").rename(trained / "away")
    for stage, out in (("train", "models"), ("train", "data"), ("report", "models")):
        with pytest.raises(InputError, match=out):
            output_md5(trained, stage, out)


def sweep(folder, settings):
    """Runs of these settings with the parameters as they stand, in one folder; 4 was run before, with others."""
    for number in settings:
        write(folder, f"data/{number}.json", str(number))
    stages = {}
    for number, lr in ((1, 1), (2, 1), (4, 2)):
        digest = hashlib.md5(str(number).encode()).hexdigest()
        stages[f"run@{number}"] = {
            "params": {"params.yaml": {"train": {"lr": lr}}},
            "outs": [{"path": f"data/{number}.json", "md5": digest}],
        }
    gathered = {"deps": [{"path": "data", "md5": folder_md5(folder / "data")}], "outs": []}
    lock(folder, stages | {"sweep": gathered})


def stale(folder):
    stages = yaml.safe_load((folder / "dvc.lock").read_text())["stages"]
    return stale_stages(stages, PARAMS, list(stages), folder)


def test_a_setting_that_is_no_longer_run_makes_nothing_stale(tmp_path):
    """DVC keeps its entry in dvc.lock, and removes its file."""
    sweep(tmp_path, (1, 2))
    assert "sweep" not in stale(tmp_path)


def test_a_setting_that_was_run_with_other_parameters_makes_its_readers_stale(tmp_path):
    sweep(tmp_path, (1, 2, 4))
    assert stale(tmp_path).keys() == {"run@4", "sweep"}


def test_what_no_commit_holds(tmp_path, monkeypatch):
    for key in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{key}_NAME", "test")
        monkeypatch.setenv(f"GIT_{key}_EMAIL", "test@localhost")
    names = ("committed.yaml", "edited.yaml", "new.yaml", "ignored.yaml")
    assert uncommitted(tmp_path, *names) == ()  # no git here
    for name in names:
        write(tmp_path, name, "1")
    write(tmp_path, ".gitignore", "/ignored.yaml\n")
    for words in (["init", "-q"], ["add", *names[:2]], ["commit", "-q", "-m", "a run"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    write(tmp_path, "edited.yaml", "2")
    assert uncommitted(tmp_path, *names) == ("edited.yaml", "ignored.yaml", "new.yaml")
    assert uncommitted(tmp_path, "committed.yaml") == ()
