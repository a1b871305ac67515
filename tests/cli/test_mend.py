"""A dvc.lock or rwlock that a killed DVC left half-written is mended before dvc repro."""

import subprocess
from pathlib import Path

import pytest
from dvc.schema import COMPILED_LOCKFILE_SCHEMA
from ruamel.yaml import YAML

from tinylm.cli import mend

COMMITTED = (Path(__file__).parents[2] / "dvc.lock").read_text("utf-8")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".dvc/tmp").mkdir(parents=True)
    return tmp_path


def commit() -> None:
    mend.LOCK_FILE.write_text(COMMITTED)
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "dvc.lock"], [*identity, "commit", "-qm", "lock"]):
        subprocess.run(["git", *words], check=True)


def test_a_whole_lock_stays_as_it_is(capsys):
    mend.LOCK_FILE.write_text(COMMITTED)
    mend.RWLOCK.write_text("{}")
    mend.main()
    assert mend.LOCK_FILE.read_text() == COMMITTED
    assert mend.RWLOCK.exists()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_lock_that_was_cut_off_is_restored_from_the_last_commit(share, capsys):
    commit()
    end_of_a_key = COMMITTED.index(":", int(share * len(COMMITTED)))  # elsewhere DVC may read it
    mend.LOCK_FILE.write_text(COMMITTED[:end_of_a_key])
    mend.main()
    assert mend.LOCK_FILE.read_text() == COMMITTED
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_without_a_commit_a_lock_that_was_cut_off_is_removed():
    mend.LOCK_FILE.write_text(COMMITTED[:100])
    mend.main()
    assert not mend.LOCK_FILE.exists()


def test_a_torn_rwlock_is_removed(capsys):
    mend.RWLOCK.write_text('{"read": {')
    mend.main()
    assert not mend.RWLOCK.exists()
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_a_lock_that_is_taken_for_whole_is_one_that_dvc_reads():
    lines = COMMITTED.splitlines(keepends=True)[:120]
    texts = ["".join(lines[:count]) for count in range(len(lines))]
    whole = [text for text in texts if mend.is_whole(text)]
    assert whole
    for text in whole:
        COMPILED_LOCKFILE_SCHEMA(YAML(typ="safe").load(text))
