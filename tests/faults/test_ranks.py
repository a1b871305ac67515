"""Stage train in two processes: a rank that fails, is killed or interrupted ends the run with one line and no part."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.faults.test_train_stage import HEAD
from tests.support.stages import before_training, written
from tinylm.host.processes import exclusive_lock

# One interpreter for all runs, each in a fork of it: torch is imported once. Lines of input: update, action.
RUNS = """
import stages.train
from tinylm.host.command import guard
from tinylm.train import ranks
from tinylm.train.trainer import Trainer
ranks.GRACE_S, plain = 5.0, Trainer.update
print(flush=True)
for line in sys.stdin:
    name, at, action = line.rstrip().split(";", 2)
    def update(self, batches):
        if f"{self.group.rank}.{self.updates}" == at:
            with open("pids", "a") as file:
                print(os.getpid(), os.getppid(), file=file)
            exec(action)
        return plain(self, batches)
    Trainer.update = update
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    for stream, kind in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{name}.{kind}", os.O_CREAT | os.O_WRONLY), stream)
    os._exit(guard(stages.train.main))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks") / "here"
    before_training(folder, 1000.0, tokens=2400, processes=2)
    return folder


@pytest.fixture(scope="module")
def train(folder):
    """One run of stage train with what happens in RANK.UPDATE: (exit code, output, errors)."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TINYLM_PATIENCE_S": "20"}
    with subprocess.Popen(
        [sys.executable, "-c", HEAD + RUNS], cwd=folder, env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()

        def run(name, at="", action="", process=process):
            print(name, at, action, sep=";", file=process.stdin, flush=True)
            code = int(process.stdout.readline())
            out, err = ((folder / f"{name}.{kind}").read_text() for kind in ("out", "err"))
            assert "Traceback" not in err, err
            return code, out, [line for line in err.splitlines() if line]

        yield run
        process.stdin.close()


@pytest.fixture(scope="module")
def undisturbed(folder, train):
    assert train("undisturbed")[0] == 0
    files = written(folder)
    for name in ("models", "metrics/train.json", "plots", "runs"):
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return files


KILL, TO_PARENT = "os.kill(os.getpid(), signal.SIGKILL)", "os.kill(os.getppid(), signal.{})"
NAN = "self.parameters[1].data.fill_(float('nan'))"
KILLED = r"was killed \(signal 9; too little memory, or somebody ended it\)"
MEMORY = r"error: rank 1: update 15: out of memory in a mini-batch of 4 x .*lower train.batch_size.*stopped after update 14"
ENDED = {
    "rank 1 killed": (
        "1.3",
        KILL,
        1,
        [f"error: rank 1 {KILLED}; stopped after update 3, .* to go on from there$"],
    ),
    "interrupted": (
        "1.8",
        TO_PARENT.format("SIGINT"),
        130,
        ["stopping after", "interrupted after update 9, "],
    ),
    "terminated": (
        "1.11",
        TO_PARENT.format("SIGTERM"),
        143,
        ["stopping after", "interrupted after update 12, "],
    ),
    "out of memory": ("1.14", "raise MemoryError", 1, [MEMORY]),
    "no number": (
        "1.16",
        NAN,
        1,
        ["error: update 17: loss nan, .* at learning rate .*last good snapshot: .*0014.s"],
    ),
    "rank 0 killed": ("0.20", KILL, 1, [f"error: rank 0 {KILLED}$"]),
}


def test_ended_in_every_way_and_taken_up_each_time_with_the_same_bytes(folder, undisturbed, train):
    assert {path.partition("/")[0] for path in undisturbed} == {"models", "metrics", "plots"}
    for name, (at, action, expected, lines) in ENDED.items():
        code, _, err = train(name, at, action)
        assert code == expected, (name, err)
        assert len(err) == len(lines), err
        for line, pattern in zip(err, lines, strict=True):
            assert re.match(pattern, line), line
        assert not (folder / "models").exists()
        assert not list(folder.glob("runs/**/.*tmp*"))
    code, out, err = train("whole")
    assert (code, err) == (0, [])
    assert "resumed after update 14," in out
    assert written(folder) == undisturbed
    timing = json.loads((folder / "metrics/train_time.json").read_text())
    assert (timing["conditions"]["processes"], timing["conditions"]["threads"]) == (2, 1)
    assert timing["tokens_per_s"] == pytest.approx(2300 / timing["train_s"], rel=0.05)


def test_no_rank_outlives_its_parent(folder, undisturbed, train):
    pids = folder / "pids"
    pids.unlink(missing_ok=True)
    at, action = "1.4", "os.kill(os.getppid(), signal.SIGKILL); __import__('time').sleep(60)"
    assert train("parent killed", at, action)[0] == -signal.SIGKILL
    alive = {int(pid) for pid in pids.read_text().split()}
    end = time.monotonic() + 20
    while alive and time.monotonic() < end:
        time.sleep(0.05)
        alive = {
            pid
            for pid in alive
            if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        }
    assert not alive


def test_a_second_training_is_refused(folder, undisturbed, train):
    with exclusive_lock(folder / "runs/train.lock", "a test"):
        code, _, err = train("second")
    assert (code, len(err)) == (2, 1)
    assert err[0].startswith(f"error: training is already running here (pid {os.getpid()}, since ")
