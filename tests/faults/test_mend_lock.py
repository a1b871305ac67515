"""A dvc.lock or lock file of DVC's that a kill left half-written."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from dvc.schema import COMPILED_LOCKFILE_SCHEMA
from ruamel.yaml import YAML
from voluptuous import Invalid

from tinylm.cli import mend_lock

ENTRY = """\
  {name}:
    cmd: python -m stages.{name}
    deps:
    - path: stages/{name}.py
      hash: md5
      md5: 54752cc432b75ccea7e350c19c644202
      size: 942
    params:
      params.yaml:
        {name}:
          seed: 1
          text: 'once: upon'
    outs:
    - path: data/{name}
      hash: md5
      md5: 54752cc432b75ccea7e350c19c644203.dir
      size: 12
      nfiles: 2
"""
NAMES = ("download", "accum_run@1", "train")
WHOLE = mend_lock._HEAD + "".join(ENTRY.format(name=name) for name in NAMES)


def dvc_reads(text: str) -> bool:
    try:
        COMPILED_LOCKFILE_SCHEMA(YAML(typ="safe").load(text) or {})
    except Invalid:
        return False
    return True


def test_a_whole_file_is_whole():
    assert dvc_reads(WHOLE)
    assert mend_lock.is_whole(WHOLE)


@pytest.mark.parametrize("committed", ["", WHOLE])
def test_cut_off_at_any_place_it_is_mended(committed):
    for end in range(len(WHOLE)):
        cut = WHOLE[:end]
        if mend_lock.is_whole(cut):
            assert dvc_reads(cut), end
        else:
            new = mend_lock.mended(cut, committed)
            assert dvc_reads(new) if new else not committed, end
            kept = list(mend_lock._entries(new))
            assert set(kept) == set(NAMES) if committed else kept == list(NAMES)[: len(kept)], end


def test_it_is_said_and_the_next_command_finds_it_whole(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("dvc.lock").write_text(WHOLE)
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"],
    ):
        subprocess.run(["git", *words], check=True)
    mend_lock.main()
    assert capsys.readouterr().out == ""
    for damaged in ("", WHOLE[:900], WHOLE[:-1]):
        Path("dvc.lock").write_text(damaged)
        mend_lock.main()
        assert (
            f"dvc.lock was left half-written ({len(damaged)} characters): restored 3"
            in capsys.readouterr().out
        )
        assert Path("dvc.lock").read_text() == WHOLE


def test_without_a_committed_file_an_empty_one_goes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("dvc.lock").write_text("")
    mend_lock.main()
    assert not Path("dvc.lock").exists()
    assert "half-written" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "stays"), [("", False), ('{"read', False), (json.dumps({"read": {}}), True)]
)
def test_dvcs_own_lock_file(tmp_path, monkeypatch, text, stays):
    monkeypatch.chdir(tmp_path)
    Path(".dvc/tmp").mkdir(parents=True)
    Path(".dvc/tmp/rwlock").write_text(text)
    mend_lock.main()
    assert Path(".dvc/tmp/rwlock").exists() == stays


def test_locks_of_the_dead_go_before_they_are_reaped(tmp_path, monkeypatch):
    """In a container nobody may take note of a killed process: it stays a zombie, and DVC waits for it."""
    monkeypatch.chdir(tmp_path)
    with subprocess.Popen([sys.executable, "-c", "pass"]) as dead:
        os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is a zombie
        zombie, living = ({"pid": pid, "cmd": "dvc repro"} for pid in (dead.pid, os.getpid()))
        held = {"read": {"a": [zombie, living], "b": [zombie]}, "write": {"c": zombie, "d": living}}
        Path(".dvc/tmp").mkdir(parents=True)
        Path(".dvc/tmp/rwlock").write_text(json.dumps(held))
        mend_lock.main()
    assert json.loads(Path(".dvc/tmp/rwlock").read_text()) == {
        "read": {"a": [living]},
        "write": {"d": living},
    }


@pytest.mark.parametrize("alive", ["lock", "stage"])
def test_beside_a_living_dvc_nothing_is_mended(tmp_path, monkeypatch, capsys, alive):
    """What looks half-written may be what it writes at this moment."""
    monkeypatch.chdir(tmp_path)
    Path(".dvc/tmp").mkdir(parents=True)
    Path("dvc.lock").write_text(WHOLE[:900])
    rwlock = (
        '{"read'
        if alive == "lock"
        else json.dumps({"write": {"data": {"pid": os.getpid(), "cmd": "dvc repro"}}})
    )
    Path(".dvc/tmp/rwlock").write_text(rwlock)
    with open(".dvc/tmp/lock", "a+") as lock:
        if alive == "lock":
            fcntl.flock(lock, fcntl.LOCK_EX)
        mend_lock.main()
    told = capsys.readouterr().out
    assert told.startswith("a DVC is at work here (")
    assert told.count("\n") == 1
    assert (Path("dvc.lock").read_text(), Path(".dvc/tmp/rwlock").read_text()) == (
        WHOLE[:900],
        rwlock,
    )
