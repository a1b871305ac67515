"""Each stage, failed and killed at each write, fsync, rename and reservation that it makes."""

import errno
import json
import os
import runpy
import shutil
from pathlib import Path

import pytest
import yaml

from tinylm.base.files import SUMS, sha256

HERE = Path(__file__).parent
STAGES = runpy.run_path(str(HERE.parent / "test_stages.py"))
DISK = runpy.run_path(str(HERE / "disk.py"))
ROOT, ORDER, run = STAGES["ROOT"], STAGES["ORDER"], STAGES["run"]
FOLDERS = ("data", "models", "metrics", "plots", "report")
LAST_BYTES = {
    ".json": b"\n",
    ".csv": b"\n",
    ".jsonl": b"\n",
    ".html": b"</html>\n",
    ".png": b"IEND\xaeB`\x82",
    ".pdf": b"%%EOF\n",
}


def measured(name: str) -> bool:
    """Whether a file tells how long something took, and so differs from run to run."""
    parts = Path(name).parts
    return (
        "_time" in name
        or parts[:2] == ("data", "accum")
        or parts[0] == "report"
        or parts[-1] == "run.json"
        or (parts[:1] == ("data",) and parts[1] == "seeds" and parts[-1] == SUMS)
        or parts[:2] == ("plots", "pictures")
        or name == "metrics/seeds.json"
    )


def outs(command: str) -> list[str]:
    """What DVC removes before it starts the stage."""
    name, _, item = command.partition(" ")
    stage = yaml.safe_load((ROOT / "dvc.yaml").read_text("utf-8"))["stages"][name]
    entries = [entry for kind in ("outs", "metrics", "plots") for entry in stage.get(kind, [])]
    paths = [entry if isinstance(entry, str) else next(iter(entry)) for entry in entries]
    return [path.replace("${item.accumulation}", item).replace("${item.seed}", item) for path in paths]


def finished(folder: Path) -> dict[str, Path]:
    """The files under final names in the folders of the pipeline."""
    found = {name: path for name, path in DISK["tree"](folder).items() if name.split("/")[0] in FOLDERS}
    return {name: path for name, path in found.items() if not path.name.startswith(".")}


def temporary(folder: Path) -> list[str]:
    return [name for name in DISK["tree"](folder) if ".tmp" in name]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A folder in which every stage ran once, and the SHA-256 of what it left."""
    folder = tmp_path_factory.mktemp("faults")
    params = STAGES["small_params"]()
    params["runtime"]["snapshot_every_s"] = 0.2
    STAGES["plant"](folder, params)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert [command for command in ORDER if run(command) != 0] == []
    return folder, {name: sha256(path) for name, path in finished(folder).items()}


def whole(path: Path, name: str, expected: dict[str, str]) -> bool:
    """Whether a file is what the undisturbed run left; where it tells of time, whether nothing is cut off."""
    if not measured(name):
        return sha256(path) == expected.get(name)
    if path.suffix == ".json":
        json.loads(path.read_text("utf-8"))
    return path.read_bytes().endswith(LAST_BYTES[path.suffix])


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
def test_fault_06_13_14_every_call_of_every_stage(undisturbed, tmp_path, monkeypatch, command):
    """Failed at the N-th call for every N; looked at before each as a kill would leave it; taken up after one."""
    source, expected = undisturbed
    folder, aside = tmp_path / "run", tmp_path / "aside"
    shutil.copytree(source, folder, symlinks=True)
    monkeypatch.chdir(folder)
    for path in outs(command):
        shutil.rmtree(path) if Path(path).is_dir() else Path(path).unlink(missing_ok=True)
    watch = Watch(folder, expected)
    disk = DISK["Disk"](folder, aside, watch.look, watch.failed)
    disk.keep = 4 if command.split()[0] in ("accum_run", "seed_score") else 9  # within the first file, or after it
    if command == "report":  # hundreds of calls, all alike: one error each
        disk.errors = ((errno.ENOSPC,), (errno.EIO,))
    code = DISK["LEAKED"]
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

    DISK["remake"](folder, disk.state, shutil.copyfile)  # killed there: hidden files of that moment and all
    assert run(command) == 0
    same_bytes(folder, expected)


def same_bytes(folder: Path, expected: dict[str, str]) -> None:
    found = finished(folder)
    assert set(found) == set(expected)
    assert [name for name, path in found.items() if not whole(path, name, expected)] == []


def test_the_disk_finds_a_writer_that_is_not_atomic(tmp_path, monkeypatch):
    """The look at each call sees a file that stands under its final name before it is whole."""
    from tinylm.base import files

    (tmp_path / "run/data").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "run")
    watch = Watch(tmp_path / "run", {"data/a": "not this"})
    disk = DISK["Disk"](tmp_path / "run", tmp_path / "aside", watch.look, lambda *_: None)
    disk.install(monkeypatch)
    Path("data/a").write_bytes(b"half")
    with pytest.raises(AssertionError, match="data/a"):
        files.write_bytes("data/b", b"x")
    assert not os.path.exists("data/b")
