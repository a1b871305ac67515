"""Rows of the table of faults that are about stage train as a process: killed, stopped, twice, short of memory."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.stages import before_training, written
from tinylm.base.machine import instructions

HEAD = """
import os, resource, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # the background of a shell ignores Ctrl-C
sys.argv = ['stages.train']
sys.path.insert(0, os.getcwd())
"""
TAIL = "\nimport stages.train\nfrom tinylm.host.command import guard\nsys.exit(guard(stages.train.main))"
AT_UPDATE = """
from tinylm.train.trainer import Trainer
plain = Trainer.update
def update(self, batches):
    if self.updates == {update}:
        {action}
    return plain(self, batches)
Trainer.update = update
"""
AT_FILE = """
plain = os.replace
def replace(source, target):
    if str(target).endswith({name!r}):
        os.kill(os.getpid(), signal.SIGKILL)
    plain(source, target)
os.replace = replace
"""


def start(folder: Path, before: str = "", **environment: str) -> subprocess.Popen:
    """Stage train in a process of its own, `before` run first."""
    known = {key: value for key, value in os.environ.items() if not key.startswith("TINYLM_")}
    known |= {"OMP_NUM_THREADS": "1", **environment}
    return subprocess.Popen(
        [sys.executable, "-c", HEAD + before + TAIL], cwd=folder, env=known, text=True, encoding="utf-8",
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def train(folder: Path, before: str = "", **environment: str) -> tuple[int, str, str]:
    process = start(folder, before, **environment)
    out, err = process.communicate(timeout=120)
    assert "Traceback" not in err, err
    return process.returncode, out, err


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    """A folder before its first training."""
    folder = tmp_path_factory.mktemp("ready") / "with space, ünï"
    before_training(folder, 0.001, tokens=3000, keep_epochs=[0.1])
    return folder


@pytest.fixture(scope="module")
def undisturbed(ready, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / "here"
    shutil.copytree(ready, folder, symlinks=True)
    assert train(folder)[0] == 0
    return written(folder)


@pytest.fixture
def folder(ready, tmp_path):
    shutil.copytree(ready, tmp_path / "there", symlinks=True)
    return tmp_path / "there"


def test_fault_01_killed_again_and_again(folder, undisturbed):
    for update in (3, 8, 19):
        action = "os.kill(os.getpid(), signal.SIGKILL)"
        assert train(folder, AT_UPDATE.format(update=update, action=action))[0] == -signal.SIGKILL
    code, out, _ = train(folder)
    assert (code, written(folder)) == (0, undisturbed)
    assert "resumed after update 19," in out
    steps = [
        line.split(",")[0] for line in (folder / "plots/learning_rate.csv").read_text().splitlines()
    ]
    assert len(steps) == len(set(steps)) > 3
    timing = json.loads((folder / "metrics/train_time.json").read_text())
    assert timing["seconds"] > timing["train_s"] > 0


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_fault_03_a_signal(folder, undisturbed, number, code):
    (folder / "params.yaml").write_text(
        (folder / "params.yaml")
        .read_text()
        .replace("snapshot_every_s: 0.001", "snapshot_every_s: 1000.0")
    )
    found, _, err = train(
        folder, AT_UPDATE.format(update=11, action=f"signal.raise_signal(signal.{number})")
    )
    assert found == code
    assert err.splitlines()[-1].startswith("interrupted after update 12, ")
    assert "run the same command again to go on from there" in err
    assert not (folder / "models").exists()
    code, out, _ = train(folder, TINYLM_RESUME="require")
    assert "resumed after update 12," in out
    assert (code, written(folder)) == (0, undisturbed)


@pytest.mark.parametrize("row", ["test_fault_04", "test_fault_05"])
def test_fault_04_05_a_second_trainer_is_refused(folder, undisturbed, row):
    """04: the first one's parent is dead (dvc was killed); 05: it is alive."""
    slow = AT_UPDATE.format(update=5, action="print('at 5', flush=True), sys.stdin.read()")
    gate, hold = os.pipe()
    words = [sys.executable, "-c", HEAD + slow + TAIL]
    script = "import subprocess, sys; p = subprocess.Popen(sys.argv[1:]); print(p.pid, flush=True)"
    script += "" if row == "test_fault_04" else "; p.wait()"
    with subprocess.Popen(
        [sys.executable, "-c", script, *words],
        cwd=folder,
        stdin=gate,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        while "at 5" not in parent.stdout.readline():
            pass
        code, _, err = train(folder)
        assert code == 2
        assert f"error: training is already running here (pid {pid}, since 2" in err
        os.close(gate)
        os.close(hold)
        parent.stdout.read()  # until the first one has ended
    assert train(folder)[0] == 0
    assert written(folder) == undisturbed


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "train.json", "done.json"])
def test_fault_07_killed_before_a_file_of_the_end(folder, undisturbed, name):
    before = AT_FILE.format(
        name=f"models/{name}" if name in ("model.safetensors", "config.json") else name
    )
    assert train(folder, before)[0] == -signal.SIGKILL
    forbidden = AT_UPDATE.format(update="self.updates", action="sys.exit('trained again')")
    code, _, err = train(folder, forbidden)
    assert (code, err) == (0, "")
    assert written(folder) == undisturbed


def test_fault_18_nothing_bad_is_written(folder):
    poison = "self.parameters[0].data.fill_(float('nan'))"
    code, _, err = train(folder, AT_UPDATE.format(update=9, action=poison))
    assert code == 1
    (line,) = err.splitlines()
    assert line.startswith("error: update 10: loss nan, gradient norm nan at learning rate ")
    assert "000000000009.safetensors" in line
    assert {
        path for path in written(folder) if "download" not in path and "vocab" not in path
    } == set()


def test_fault_19_too_little_memory(folder):
    action = (
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize(); "
        "resource.setrlimit(resource.RLIMIT_AS, (used + (32 << 20), -1)); "
        "batches = [type(b)(b.inputs.repeat(20000, 1), b.targets.repeat(20000, 1), b.tokens) for b in batches]"
    )
    code, _, err = train(folder, AT_UPDATE.format(update=4, action=action))
    assert code == 1
    (line,) = err.splitlines()
    assert line.startswith(
        ("error: update 5: out of memory in a mini-batch of ", "error: out of memory")
    )
    assert "train.batch_size" in line
    assert train(folder)[0] == 0


JUMPING = """
import time
plain, jumps = time.time, iter([3600.0, -86400.0 * 400] * 1000)
time.time = lambda: plain() + next(jumps)
"""


@pytest.mark.parametrize(
    ("before", "environment"),
    [
        ("", {"TZ": "Pacific/Kiritimati", "LANG": "C", "LC_ALL": "C", "PYTHONHASHSEED": "77"}),
        (
            "",
            {"LC_ALL": "tr_TR.UTF-8", "PYTHONUTF8": "0", "HOME": "/nonexistent", "USER": "nobody"},
        ),
        (JUMPING, {}),
        ("os.umask(0o077)\n", {"TMPDIR": "/tmp", "COLUMNS": "20"}),
    ],
    ids=["zone and language", "user", "clock", "umask"],
)
def test_fault_46_the_same_bytes_elsewhere(folder, undisturbed, before, environment):
    assert train(folder, before, **environment)[0] == 0
    assert written(folder) == undisturbed


@pytest.mark.parametrize(
    "environment",
    [
        {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "3"},  # runtime.threads decides
        {"XDG_CACHE_HOME": "empty", "CXX": "g++"},
        {"LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "5"},
        {},
    ],
    ids=["threads of libraries", "cache and compiler", "language", "clock and link"],
)
def test_fault_01_46_resumed_elsewhere_with_the_same_bytes(
    folder, undisturbed, environment, tmp_path
):
    kill = AT_UPDATE.format(update=8, action="os.kill(os.getpid(), signal.SIGKILL)")
    assert train(folder, kill)[0] == -signal.SIGKILL
    link, jumped = tmp_path / "link", time.time() + 4e7
    link.symlink_to(folder)
    for path in (folder / "runs").rglob("*"):
        os.utime(path, (jumped, jumped))
    code, out, _ = train(
        folder if environment else link, "" if environment else JUMPING, **environment
    )
    assert "resumed after update 8," in out
    assert (code, written(folder)) == (0, undisturbed)
    assert len(list((folder / "models/moments").glob("*.safetensors"))) == 1


@pytest.mark.skipif(instructions()["torch_level"] == "default", reason="there is no lower level")
def test_fault_12_in_another_kind_of_arithmetic_it_is_refused_and_said_where_forced(folder):
    kill = AT_UPDATE.format(update=8, action="os.kill(os.getpid(), signal.SIGKILL)")
    assert train(folder, kill)[0] == -signal.SIGKILL
    code, _, err = train(folder, ATEN_CPU_CAPABILITY="default")
    (line,) = err.splitlines()
    before = instructions()["torch_level"]
    assert (code, f"but since then: torch_level {before} -> default" in line) == (2, True)
    code, out, _ = train(folder, ATEN_CPU_CAPABILITY="default", TINYLM_RESUME="force")
    assert (code, "resumed after update 8," in out) == (0, True)
    conditions = json.loads((folder / "metrics/train_time.json").read_text())["conditions"]
    assert conditions["torch_level"] == "default"
    assert conditions["mixed"].startswith(f"torch_level {before} -> default, ")
    assert conditions["mixed"].endswith(" after update 8")


FULL = """
import errno
def full(handle, *_):
    file = os.readlink(f"/proc/self/fd/{handle}")
    if "00000" in file and file.endswith(".safetensors") and update_number() >= 6:
        raise OSError(errno.ENOSPC, "No space left on device")
os.posix_fallocate = full
def update_number():
    return max([int(name[:12]) for _, _, names in os.walk("runs") for name in names if name[:6] == "000000"] or [0])
"""


def test_fault_13_a_full_disk_in_a_snapshot(folder, undisturbed):
    code, _, err = train(folder, FULL)
    assert code == 1
    (line,) = err.splitlines()
    assert line.startswith("error: no space left on the disk for ")
    assert "bytes needed, " in line
    assert not list((folder / "runs").rglob(".*.tmp*"))
    code, out, _ = train(folder)  # with space again
    assert "resumed after update 6," in out
    assert (code, written(folder)) == (0, undisturbed)


def mounted(folder: Path, mount: str, command: str) -> subprocess.CompletedProcess[str]:
    """A shell command in a mount namespace of its own; skips where the system allows none."""
    words = ["unshare", "-rm", "sh", "-c"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*words, mount], cwd=folder, capture_output=True).returncode
    ):
        pytest.skip("no mount namespace here")
    return subprocess.run(
        [*words, f"{mount} && {command}"], cwd=folder, capture_output=True, text=True
    )


def test_fault_13_a_disk_of_one_megabyte(folder):
    (folder / "runs").mkdir(exist_ok=True)
    mount = "mount -t tmpfs -o size=64k none runs"
    done = mounted(folder, mount, f"{sys.executable} -m stages.train")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    (line,) = done.stderr.splitlines()
    assert "bytes needed, " in line
    assert " free" in line


@pytest.mark.parametrize("name", ["runs", "models", "metrics", "plots"])
def test_fault_16_a_read_only_folder_is_found_before_training(folder, name):
    (folder / name).mkdir(exist_ok=True)
    mount = f"mount --bind {name} {name} && mount -o remount,ro,bind {name}"
    done = mounted(folder, mount, f"{sys.executable} -m stages.train")
    assert done.returncode == 1
    assert done.stderr == f"error: {name}: no file can be made here (Read-only file system)\n"
    assert "update 0" not in done.stdout
