"""Train on two hosts that share nothing but a wire, and compare with one process: python tests/distributed/two_hosts.py

The hosts are two network namespaces joined by a veth pair, each with a name and a folder of its own; torchrun runs in
both. Needs `unshare`, `nsenter` and `ip`, not root. --short leaves out the rank that is killed and the run after it.
"""

import contextlib
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
ADDRESSES = ("10.77.0.1", "10.77.0.2")
TOKENS = 6000
WITHIN = 1e-5


def differences(one: Path, other: Path) -> tuple[float, float]:
    """Largest difference between two models' weights: (of the keys' biases, of all others).

    A bias of the keys moves all scores of a query alike, so that softmax takes it away: its gradient is rounding alone.
    """
    from safetensors.torch import load_file

    keys = rest = 0.0
    first, second = (load_file(path / "models/model.safetensors") for path in (one, other))
    for name, tensor in first.items():
        apart = (tensor - second[name]).abs()
        if name.endswith("qkv.bias"):
            query, key, value = (float(part.max()) for part in apart.chunk(3))
            keys, rest = max(keys, key), max(rest, query, value)
        else:
            rest = max(rest, float(apart.max()))
    return keys, rest


def prepare(folder: Path) -> None:
    """Folders host1, host2 and alone, the same data in each; a run of one process in the last."""
    from tests.support import stages

    params = stages.small_params()
    params["train"]["precision"] = "fp32"  # what is promised of several processes is promised there
    params["train"] |= {"tokens": TOKENS, "validate_every": 20, "sample_every": 40}

    def run(home: str, *names: str) -> None:
        with contextlib.chdir(folder / home), contextlib.redirect_stdout(io.StringIO()):
            assert [stages.run(name) for name in names] == [0] * len(names)

    (folder / "host1").mkdir()
    stages.plant(folder / "host1", params)
    run("host1", "download", "vocab")
    for written in ("metrics", "runs"):
        shutil.rmtree(folder / "host1" / written)
    for name in ("host2", "alone"):
        shutil.copytree(folder / "host1", folder / name, symlinks=True)
    params["train"]["processes"] = 2
    for name in ("host1", "host2"):
        stages.plant(folder / name, params)
    run("alone", "train")


def connect() -> subprocess.Popen:
    """The second namespace, joined to this one; it lasts as long as the process returned."""
    other = subprocess.Popen(["unshare", "-nu", "sh", "-c", "echo; exec cat"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    assert other.stdout is not None
    other.stdout.readline()
    inside = ["nsenter", "-t", str(other.pid), "-n"]
    for words in (
        ["ip", "link", "add", "left", "type", "veth", "peer", "name", "right", "netns", str(other.pid)],
        ["ip", "address", "add", f"{ADDRESSES[0]}/24", "dev", "left"],
        [*inside, "ip", "address", "add", f"{ADDRESSES[1]}/24", "dev", "right"],
        *([*where, "ip", "link", "set", name, "up"] for where, name in
          (([], "lo"), ([], "left"), (inside, "lo"), (inside, "right"))),
    ):  # fmt: skip
        subprocess.run(words, check=True)
    socket.sethostname("host1")
    subprocess.run(["nsenter", "-t", str(other.pid), "-u", sys.executable, "-c",
                    "import socket; socket.sethostname('host2')"], check=True)  # fmt: skip
    return other


def start(folder: Path, other: int) -> list[subprocess.Popen]:
    """torchrun on both hosts; what they print goes to the files out and err of each."""
    processes = []
    for host in (0, 1):
        where = [] if host == 0 else ["nsenter", "-t", str(other), "-n", "-u"]
        words = f"-m torch.distributed.run --nnodes 2 --nproc-per-node 1 --node-rank {host} --master-addr {ADDRESSES[0]}"
        home = folder / f"host{host + 1}"
        with open(home / "out", "w") as out, open(home / "err", "w") as err:
            processes.append(
                subprocess.Popen(
                    [
                        *where,
                        sys.executable,
                        *words.split(),
                        "--master-port",
                        "29511",
                        "-m",
                        "stages.train",
                    ],
                    cwd=home,
                    stdout=out,
                    stderr=err,
                )
            )
    return processes


def whole_run(folder: Path, other: int) -> bytes:
    """A run to its end; the bytes of its weights. Only the first host may have written."""
    codes = [process.wait(timeout=120) for process in start(folder, other)]
    assert codes == [0, 0], (folder / "host1/err").read_text() + (folder / "host2/err").read_text()
    written = [
        name
        for name in ("models", "metrics", "plots", "runs")
        if (folder / "host2" / name).exists()
    ]
    assert not written, written
    keys, rest = differences(folder / "alone", folder / "host1")
    timing = json.loads((folder / "host1/metrics/train_time.json").read_text())
    print(
        f"two hosts against one process: weights differ by at most {rest:.1e} (biases of keys {keys:.1e}); "
        f"{timing['conditions']['processes']} processes, {timing['tokens_per_s']:,.0f} tokens/s together"
    )
    assert rest < WITHIN
    return (folder / "host1/models/model.safetensors").read_bytes()


def killed_run(folder: Path, other: int) -> None:
    """Rank 1 is killed on its host in the middle of a run: the first host says so and ends."""
    for name in ("models", "runs", "plots", "metrics"):
        shutil.rmtree(folder / "host1" / name)
    processes = start(folder, other)
    while "update 20," not in (folder / "host1/out").read_text():
        time.sleep(0.02)
    for child in psutil.Process(processes[1].pid).children(recursive=True):
        child.kill()
    codes = [process.wait(timeout=60) for process in processes]
    lines = [
        line
        for line in (folder / "host1/err").read_text().splitlines()
        if line.startswith("error: ")
    ]
    print(f"rank 1 killed on its host: exit codes {codes}; host1: {lines}")
    assert 0 not in codes
    assert len(lines) == 1
    assert lines[0].startswith(
        "error: rank 1 was killed, or its host is gone; stopped after update "
    )
    assert not (folder / "host1/models").exists()


def inside(folder: Path, short: bool) -> None:
    """What happens in the namespaces."""
    other = connect()
    try:
        weights = whole_run(folder, other.pid)
        if not short:
            killed_run(folder, other.pid)
            assert whole_run(folder, other.pid) == weights
            assert "resumed after update" in (folder / "host1/out").read_text()
            print("taken up again on both hosts: the same bytes")
    finally:
        other.kill()


def main() -> None:
    os.environ["PYTHONPATH"] = str(ROOT)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if "--inside" in sys.argv:
        inside(Path(sys.argv[-1]), "--short" in sys.argv)
        return
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name))
        words = ["unshare", "-rnu", sys.executable, __file__, *sys.argv[1:], "--inside", name]
        sys.exit(subprocess.run(words).returncode)


if __name__ == "__main__":
    main()
