"""Each stage, failed and killed at each write, fsync, rename and reservation that it makes."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from tests.faults.disk import LEAKED, Disk, remake
from tests.faults.finished import finished, outs, same_bytes, sums, temporary, whole
from tests.support.stages import ORDER, run


class Watch:
    """Looks at what changed under final names; and at how a stage ends whose disk failed."""

    def __init__(self, folder: Path, expected: dict[str, str]) -> None:
        self.folder, self.expected = folder, expected
        self.seen: set[tuple[str, int, int]] = set()
        self.ends: list[str] = []

    def look(self) -> None:
        for name, path in finished(self.folder).items():
            key = (name, path.stat().st_ino, path.stat().st_mtime_ns)
            if key not in self.seen:
                assert whole(path, name, self.expected), name
                self.seen.add(key)

    def failed(self, code: int, text: str, what: str) -> None:
        errors = [line for line in text.splitlines() if line.startswith("error: ")]
        assert (code, len(errors), "Traceback" in text) == (1, 1, False), f"{what}: {code}, {text}"
        assert "/" in errors[0], f"{what}: no file is named in {errors[0]}"
        if "ENOSPC" in what:
            assert "no space left on the disk for " in errors[0], f"{what}: {errors[0]}"
        assert temporary(self.folder) == [], what
        self.look()
        self.ends.append(what)


@pytest.mark.parametrize("command", ORDER)
def test_fault_06_13_14_every_call_of_every_stage(finished_run, tmp_path, monkeypatch, command):
    """Failed at the N-th call for every N; looked at before each as a kill would leave it; taken up after one."""
    expected = sums(finished_run)
    folder, aside = tmp_path / "run", tmp_path / "aside"
    shutil.copytree(finished_run, folder, symlinks=True)
    monkeypatch.chdir(folder)
    for path in outs(command):
        shutil.rmtree(path) if Path(path).is_dir() else Path(path).unlink(missing_ok=True)
    watch = Watch(folder, expected)
    disk = Disk(folder, aside, watch.look, watch.failed)
    disk.keep = 4 if command.startswith("seed_score") else 9  # within the first file, or after it
    if command == "report":  # hundreds of calls, all alike: one error each
        disk.errors = ((errno.ENOSPC,), (errno.EIO,))
    code = LEAKED
    try:
        with pytest.MonkeyPatch.context() as patch:
            disk.install(patch)
            code = run(command)
    finally:
        disk.leave(code)
    assert code == 0
    assert {"write", "fsync", "replace"} <= set(disk.calls)
    assert len(watch.ends) == len(disk.calls) * len(disk.errors[0])
    print(f"{command}: {len(watch.ends)} failures at {len(disk.calls)} calls")
    same_bytes(folder, expected)

    remake(folder, disk.state, shutil.copyfile)  # killed there: hidden files of that moment and all
    assert run(command) == 0
    same_bytes(folder, expected)


def test_the_disk_finds_a_writer_that_is_not_atomic(tmp_path, monkeypatch):
    """The look at each call sees a file that stands under its final name before it is whole."""
    from tinylm.base import files

    (tmp_path / "run/data").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "run")
    watch = Watch(tmp_path / "run", {"data/a": "not this"})
    disk = Disk(tmp_path / "run", tmp_path / "aside", watch.look, lambda *_: None)
    disk.install(monkeypatch)
    Path("data/a").write_bytes(b"half")
    with pytest.raises(AssertionError, match="data/a"):
        files.write_bytes("data/b", b"x")
    assert not os.path.exists("data/b")
