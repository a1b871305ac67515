"""A real repository of a few files, with DVC and git as users have them."""

import os
import shutil
import subprocess

import dvc.cli
import pytest

from tests.support.clone import Clone
from tinylm.base.config import InputError
from tinylm.experiments.revisions import opened

PIPELINE = """\
stages:
  make:
    cmd: mkdir -p data/evaluate && cp params.yaml data/evaluate/stories.csv
    params: [train]
    outs: [data/evaluate]
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """main: lr 1; the branch: lr 2; an experiment of main: lr 3; the workspace: main with params.yaml edited."""
    folder = tmp_path_factory.mktemp("lab")
    with pytest.MonkeyPatch.context() as patch:
        for key in [name for name in os.environ if name.startswith(("GIT_", "DVC_"))]:
            patch.delenv(key)
        for name, value in Clone(folder).environment().items():
            patch.setenv(name, value)
        patch.chdir(folder)

        def run(*words):
            if words[0] == "dvc":
                assert dvc.cli.main(list(words[1:])) == 0, words
            else:
                subprocess.run(words, check=True, capture_output=True)

        run("git", "init", "-q", "-b", "main")
        run("dvc", "init", "-q")
        (folder / "dvc.yaml").write_text(PIPELINE)
        for branch, rate in (("main", 1), ("branch", 2)):
            if branch != "main":
                run("git", "checkout", "-q", "-b", branch)
            (folder / "params.yaml").write_text(f"train: {{lr: {rate}}}\n")
            run("dvc", "repro", "-q")
            run("git", "add", "-A")
            run("git", "commit", "-q", "-m", branch)
        run("git", "checkout", "-q", "main")
        run("dvc", "checkout", "-q")
        run("dvc", "exp", "run", "-q", "-n", "try", "-S", "train.lr=3")
        run("git", "checkout", "-q", ".")
        run("dvc", "checkout", "-q")
        (folder / "params.yaml").write_text("train: {lr: 9}\n")
        yield folder


@pytest.fixture
def here(lab, monkeypatch):
    monkeypatch.chdir(lab)
    return lab


def rate(revision, path):
    return revision.text(path).split("lr:")[1].strip(" }\n")


def test_branches_experiments_and_the_workspace_have_their_own_files(here):
    with opened(["main", "branch", "try", "workspace"]) as revisions:
        assert [revision.name for revision in revisions] == ["main", "branch", "try", "workspace"]
        assert [rate(revision, "params.yaml") for revision in revisions] == ["1", "2", "3", "9"]
        kept = [rate(revision, "data/evaluate/stories.csv") for revision in revisions]
        assert kept == ["1", "2", "3", "1"]
        assert [revision.commit is None for revision in revisions] == [False, False, False, True]
    assert (here / "params.yaml").read_text() == "train: {lr: 9}\n"


def test_all_experiments_of_the_current_commit_come_once(here):
    for names in (["HEAD"], ["HEAD", "try"]):
        with opened(names, experiments=True) as revisions:
            assert [revision.name for revision in revisions] == ["HEAD", "try"]
            assert rate(revisions[1], "params.yaml") == "3"


def test_a_file_that_the_cache_has_lost_is_named(here, tmp_path):
    files = [path for path in (here / ".dvc/cache").rglob("*") if path.is_file()]
    lost = [path for path in files if path.suffix != ".dir"]  # but not the folder's list
    for path in lost:
        shutil.move(path, tmp_path / path.name)
    try:
        with opened(["branch"]) as (branch,):
            assert branch.text("data/evaluate/stories.csv") is None
            assert branch.notes[0].startswith("data/evaluate/stories")
            assert rate(branch, "params.yaml") == "2"
    finally:
        for path in lost:
            shutil.move(tmp_path / path.name, path)


@pytest.mark.parametrize("name", ["nobody", "", "--all", "HEAD:params.yaml"])
def test_names_that_lead_nowhere(here, name):
    with pytest.raises(InputError), opened([name]):
        pass


def test_files_of_the_workspace_that_are_not_of_its_lock_are_named(here):
    """As after `git checkout` without `dvc checkout`."""
    path = "data/evaluate/stories.csv"
    with opened(["main", "workspace"]) as revisions:
        assert not any(revision.has_changed("make", path) for revision in revisions)
        table = here / path
        kept = table.read_text()
        table.unlink()
        table.write_text("train: {lr: 7}\n")
        assert [revision.has_changed("make", path) for revision in revisions] == [False, True]
        assert "dvc checkout" in revisions[1].notes[-1]
        table.write_text(kept)
