"""What `make repro` looks at behind dvc: bytes that a damaged cache gave back (row 45)."""

import fcntl
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tinylm.base.config import InputError
from tinylm.base.files import write_bytes, write_json, write_sums
from tinylm.cli import verify
from tinylm.vocab.token_store import write_store


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder as a run leaves it, and all of it in DVC's cache."""
    monkeypatch.chdir(tmp_path)
    write_bytes("data/stories/train.jsonl", b"one\n" * 9)
    write_sums("data/stories")
    write_store("data/tokens", "train", [[0, 4, 1]], 9)
    write_json("data/accum/1.json", {"loss": 1.5}, sealed=True)
    write_bytes("models/model.safetensors", b"weights")
    write_sums("models")
    write_bytes("metrics/train.json", b"{}\n")
    write_bytes("plots/loss.csv", b"step,loss\n1,2\n")
    entries = []
    for path in [path for path in tmp_path.rglob("*") if path.is_file()]:
        cached(path).parent.mkdir(parents=True, exist_ok=True)
        cached(path).write_bytes(path.read_bytes())
        md5 = hashlib.md5(path.read_bytes()).hexdigest()
        entries.append(
            f"    - path: {path.relative_to(tmp_path)}\n      hash: md5\n      md5: {md5}\n      size: 1\n"
        )
    Path(".dvc/cache/runs/00/00aa").mkdir(parents=True)
    Path(".dvc/cache/runs/00/00aa/00bb").write_text("outs:\n" + "".join(entries))
    return tmp_path


def cached(path) -> Path:
    name = hashlib.md5(Path(path).read_bytes()).hexdigest()
    return Path(".dvc/cache/files/md5") / name[:2] / name[2:]


def flip(path):
    content = bytearray(Path(path).read_bytes())
    content[len(content) // 2] ^= 1
    Path(path).write_bytes(content)


FILES = [
    "data/stories/train.jsonl", "data/stories/sha256.json", "data/tokens/train.ids", "data/tokens/train.offsets",
    "data/accum/1.json", "models/model.safetensors", "metrics/train.json", "plots/loss.csv"
]  # fmt: skip


def test_whole_bytes_pass_without_a_word(here, capsys):
    before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
    verify.main()
    assert capsys.readouterr().out == ""
    assert {path: path.read_bytes() for path in here.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", FILES)
def test_fault_45_what_a_damaged_cache_gave_back_is_found_and_removed(here, name):
    there = cached(name)
    flip(there)
    Path(name).write_bytes(there.read_bytes())  # as DVC restores it
    with pytest.raises(
        InputError, match=rf"^{name}: other bytes than were written; removed.*run make repro again$"
    ):
        verify.main()
    assert not Path(name).exists()
    assert not there.exists()
    verify.main()


def test_fault_45_a_damaged_cache_that_nothing_came_out_of_is_cleaned(here, capsys):
    there = cached("metrics/train.json")
    flip(there)
    verify.main()
    assert capsys.readouterr().out.startswith(
        "1 damaged files of DVC's cache removed; nothing here came out of them"
    )
    assert not there.exists()
    assert all(Path(name).exists() for name in FILES)


def test_fault_45_folders_in_the_cache_and_a_cache_elsewhere(here):
    listing = json.dumps([{"md5": "0" * 32, "relpath": "a"}]).encode()
    name = hashlib.md5(listing).hexdigest()
    Path("elsewhere/files/md5", name[:2]).mkdir(parents=True)
    there = Path("elsewhere/files/md5", name[:2], f"{name[2:]}.dir")
    there.write_bytes(listing)
    Path(".dvc/config.local").write_text("[cache]\n    dir = ../elsewhere\n")
    verify.main()
    assert there.exists()
    flip(there)
    verify.main()
    assert not there.exists()


def state(folder) -> dict[Path, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file() and "tmp" not in path.parts]
    return {path: path.read_bytes() for path in files}


@pytest.mark.parametrize(
    "name", ["models/model.safetensors", "metrics/train.json", "plots/loss.csv"]
)
def test_a_file_of_dvcs_that_is_still_written_condemns_nothing(here, name, capsys):
    """DVC writes .NAME.tmp beside the file and renames it: the bytes there are those of a good file here."""
    unfinished = cached(name).with_name(".dGhpcyBpcyByYW5kb20.tmp")
    unfinished.write_bytes(Path(name).read_bytes())
    before = state(here)
    verify.main()
    assert state(here) == before
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", FILES)
def test_what_has_its_right_sum_stays_beside_a_cache_that_holds_its_bytes_under_another_name(
    here, name
):
    there = cached("plots/loss.csv" if name != "plots/loss.csv" else "metrics/train.json")
    there.write_bytes(Path(name).read_bytes())
    verify.main()
    assert not there.exists()
    assert all(Path(name).exists() for name in FILES)


def damage() -> None:
    flip("models/model.safetensors")
    flip(cached("metrics/train.json"))


def test_beside_a_dvc_that_holds_its_lock_nothing_is_removed(here, capsys):
    damage()
    before = state(here)
    Path(".dvc/tmp").mkdir()
    with open(".dvc/tmp/lock", "a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        verify.main()
    assert state(here) == before
    told = capsys.readouterr().out
    assert told == (
        "a DVC is at work here (it holds .dvc/tmp/lock): what it left was not checked; run make repro when it is done\n"
    )
    with pytest.raises(
        InputError, match=r"models/model\.safetensors: other bytes than were written; removed"
    ):
        verify.main()


@pytest.mark.parametrize("mode", ["read", "write"])
def test_beside_a_dvc_whose_stage_is_running_nothing_is_removed(here, capsys, mode):
    damage()
    before = state(here)
    Path(".dvc/tmp").mkdir()
    holder = {"pid": os.getpid(), "cmd": "dvc repro"}
    held = {"write": {"models": holder}} if mode == "write" else {"read": {"models": [holder]}}
    Path(".dvc/tmp/rwlock").write_text(json.dumps(held))
    verify.main()
    assert state(here) == before
    assert f"a DVC is at work here (dvc repro, pid {os.getpid()})" in capsys.readouterr().out
    with subprocess.Popen([sys.executable, "-c", "pass"]) as dead:
        dead.wait()
    Path(".dvc/tmp/rwlock").write_text(json.dumps(held).replace(str(os.getpid()), str(dead.pid)))
    with pytest.raises(
        InputError, match=r"models/model\.safetensors: other bytes than were written; removed"
    ):
        verify.main()
