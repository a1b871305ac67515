"""Data parallel training: two processes compute what one does with the same mini-batches."""

import os
import shutil
import signal
import subprocess
import sys
from itertools import permutations, product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file

from tests.support.clone import set_params
from tinylm.base.command import BAD_INPUT
from tinylm.train import distributed

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def test_two_processes_compute_what_one_does(finished_run, tmp_path):
    folder = tmp_path / "two"
    shutil.copytree(finished_run, folder, symlinks=True)
    set_params(folder, {"train.processes": 2})
    words = [sys.executable, "-m", "stages.train"]
    done = subprocess.run(words, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    alone, together = (
        pd.read_csv(run / "plots/loss.csv")["value"] for run in (finished_run, folder)
    )
    np.testing.assert_allclose(together, alone, rtol=1e-4)
    weights, expected = (
        load_file(run / "models/model.safetensors") for run in (folder, finished_run)
    )
    for name, tensor in expected.items():
        found = weights[name]
        if name.endswith("qkv.bias"):  # softmax cancels keys' biases: their gradient is rounding
            tensor, found = (torch.cat([t.chunk(3)[0], t.chunk(3)[2]]) for t in (tensor, found))
        torch.testing.assert_close(found, tensor, rtol=1e-3, atol=1e-4)


def test_dropout_differs_by_rank_and_update():
    seeds = []
    for rank, update in product(range(3), range(2)):
        distributed.Group(rank, 3).seed_dropout(1, update)
        seeds.append(torch.initial_seed())
    assert len(set(seeds)) == len(seeds)


def test_the_cause_is_the_rank_that_failed_not_one_that_torchrun_stopped():
    codes = (128 + signal.SIGTERM, distributed.LOST, BAD_INPUT, -signal.SIGTERM)
    for order in permutations(codes):
        failures = [SimpleNamespace(exitcode=code, timestamp=now) for now, code in enumerate(order)]
        assert distributed._cause(failures).exitcode == BAD_INPUT
