"""What dvc.lock and git say of the files that lie here."""

import subprocess

import pytest
import yaml

from tests.support.lock import dvc_md5
from tinylm.base.config import InputError
from tinylm.compare.provenance import output_md5, stale_stages, uncommitted

PARAMS = {"train": {"lr": 1}, "sweep": {"settings": [1, 2]}}


def write(folder, name, text):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


def lock(folder, stages):
    write(folder, "dvc.lock", yaml.safe_dump({"schema": "2.0", "stages": stages}))


def entry(folder, path):
    """How dvc.lock names an output as it lies here."""
    return {"path": path, "md5": dvc_md5(folder / path)}


def test_an_output_is_what_its_stage_wrote_or_is_refused(tmp_path):
    """DVC sorts by text: checkpoints.json before checkpoints/1.safetensors."""
    for name in ("model.safetensors", "checkpoints/1.safetensors", "checkpoints.json"):
        write(tmp_path, f"models/{name}", name)
    lock(tmp_path, {"train": {"outs": [entry(tmp_path, "models")]}})
    assert output_md5(tmp_path, "train", "models") == dvc_md5(tmp_path / "models")

    def refused(stage="train", out="models"):
        with pytest.raises(InputError, match=out):
            output_md5(tmp_path, stage, out)

    refused(out="data")
    refused(stage="report")
    write(tmp_path, "models/more.json", "more")
    refused()
    (tmp_path / "models/more.json").unlink()
    write(tmp_path, "models/model.safetensors", "other")
    refused()
    (tmp_path / "models").rename(tmp_path / "away")
    refused()


def stale(folder, settings):
    """Stages that are stale after runs of these settings; 4 was run with other parameters."""
    for number in (1, 2, 4):
        write(folder, f"data/{number}.json", str(number))
    stages = {}
    for number, lr in ((1, 1), (2, 1), (4, 2)):
        stages[f"run@{number}"] = {
            "params": {"params.yaml": {"train": {"lr": lr}}},
            "outs": [entry(folder, f"data/{number}.json")],
        }
        if number not in settings:
            (folder / f"data/{number}.json").unlink()
    stages["sweep"] = {"deps": [entry(folder, "data")], "outs": []}
    lock(folder, stages)
    return stale_stages(stages, PARAMS, list(stages), folder).keys()


def test_a_setting_with_other_parameters_makes_its_readers_stale_while_it_is_run(tmp_path):
    """DVC keeps the entry of one that is no longer run in dvc.lock, and removes its file."""
    assert "sweep" not in stale(tmp_path, (1, 2))
    assert stale(tmp_path, (1, 2, 4)) == {"run@4", "sweep"}


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
