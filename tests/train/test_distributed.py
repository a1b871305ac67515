"""Data parallel training: N ranks compute what one process does with the same mini-batches."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.train import ranks_script
from tests.train.conftest import PAD, VOCAB, counting_story
from tinylm.train.distributed import Group
from tinylm.vocab.token_store import write_store

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path, new_model, new_settings):
    """41 stories: the last mini-batch of an epoch has one row, and the second rank none of it."""
    rng = np.random.default_rng(3)
    write_store(tmp_path, "train", [counting_story(rng) for _ in range(41)], VOCAB)
    settings = new_settings(tokens=10**7, accumulation=2, optimizer="muon")
    case = {"model": new_model(), "settings": settings, "updates": 8, "pad_id": PAD}
    (tmp_path / "case.pickle").write_bytes(pickle.dumps(case))
    return tmp_path


def in_two_processes(folder, *action):
    words = [sys.executable, "-m", "tests.train.ranks_script", str(folder), "2", *action]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    )


def test_two_ranks_compute_what_one_process_does(folder):
    done = in_two_processes(folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "rank 0 of 2\n"
    first, second = (load_file(folder / f"rank-{rank}.safetensors") for rank in range(2))
    alone = ranks_script.weights(folder, Group())
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name])
        wanted = alone[name]
        if name.endswith("qkv.bias"):  # softmax takes a bias of keys away: its gradient is rounding
            keys = slice(len(tensor) // 3, 2 * len(tensor) // 3)
            tensor[keys] = wanted[keys] = 0.0
        torch.testing.assert_close(tensor, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("action", "code", "named"),
    [
        (("1", "3", "os.kill(os.getpid(), 9)"), 1, "rank 1: Signal 9"),
        (("0", "3", "from tinylm.base.config import InputError; raise InputError('no')"), 2, "no"),
    ],
)
def test_a_rank_that_ends_ends_the_run_with_one_line(folder, action, code, named):
    done = in_two_processes(folder, *action)
    assert done.returncode == code
    assert len(done.stderr.splitlines()) == 1
    assert named in done.stderr
    assert not list(folder.glob("rank-*"))
