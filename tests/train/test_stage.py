"""Stage train as a process of its own, killed again and again."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

from tests.support.clone import set_params
from tests.support.stages import before_training, written
from tinylm.base.command import BAD_INPUT
from tinylm.base.config import load_params

# The action is executed before update number `at`; with a file's name, instead of renaming to it.
PROGRAM = """
import os, signal, sys
sys.path.insert(0, os.getcwd())
signal.signal(signal.SIGINT, signal.default_int_handler)  # the background of a shell ignores it
at, action = sys.argv[1:]
import stages.train
from tinylm.base.command import run_command
from tinylm.train.trainer import Trainer
launch, replace = Trainer.launch, os.replace
def acting_launch(self, batches):
    if str(self.updates) == at:
        exec(action)
    return launch(self, batches)
def acting_replace(source, target):
    if str(target).endswith(at):
        exec(action)
    replace(source, target)
Trainer.launch, os.replace = acting_launch, acting_replace
sys.argv = ["stages.train"]
sys.exit(run_command(stages.train.main))
"""
KILL = "os.kill(os.getpid(), signal.SIGKILL)"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def train(folder, at="", action=""):
    """(exit code, output, lines of errors)"""
    words = [sys.executable, "-c", PROGRAM, str(at), action]
    done = subprocess.run(words, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, [line for line in done.stderr.splitlines() if line]


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    """A folder before its first training."""
    folder = tmp_path_factory.mktemp("ready") / "with space, ünï"
    before_training(folder, 0.001, tokens=2400, keep_epochs=[0.1])
    return folder


@pytest.fixture(scope="module")
def undisturbed(ready, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / "here"
    shutil.copytree(ready, folder, symlinks=True)
    assert train(folder)[0] == 0
    assert not (folder / "runs/train").exists()
    return written(folder)


@pytest.fixture
def folder(ready, tmp_path):
    shutil.copytree(ready, tmp_path / "there", symlinks=True)
    return tmp_path / "there"


def test_another_number_of_threads_is_refused_since_rounding_would_differ(folder):
    assert train(folder, 3, KILL)[0] == -signal.SIGKILL
    threads = load_params(folder / "params.yaml")["runtime"]["threads"]
    set_params(folder, {"runtime.threads": 1 if threads == 2 else 2})
    code, _, (line,) = train(folder)
    assert (code, "threads" in line) == (BAD_INPUT, True)


def test_killed_again_and_again_it_ends_with_the_same_bytes(folder, undisturbed):
    for at in (3, 19, "models/config.json", "metrics/train.json"):
        assert train(folder, at, KILL)[0] == -signal.SIGKILL
    code, out, _ = train(folder)
    assert (code, written(folder)) == (0, undisturbed)
    assert "resumed after update" in out
