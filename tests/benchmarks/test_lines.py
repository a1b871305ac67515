"""Every line runs at its smallest size and writes rows; peers that are not installed are left out."""

import os
import subprocess
import sys

import pytest

from benchmarks import decoding, loss, training
from tinylm.base.files import read_json


@pytest.mark.parametrize(
    ("line", "preset"),
    [(training.training, "word-50k"), (training.training_storybook, "storybook")],
)
def test_training_compares_with_nanogpt(options, line, preset):
    rows = {row.what: row for row in line(options)}
    step = rows["one training step, each in its fastest mode"]
    assert step.peer_name.startswith("nanoGPT")
    assert step.tinylm["median"] > 0
    peak = rows["peak of one step above weights, gradients and optimizer state"]
    assert peak.peer["median"] > 0
    assert f"one training step of the preset {preset}" in rows


def test_the_time_to_a_loss_is_measured_or_not_reached(options):
    (row,) = loss.loss(options)
    assert row.peer["median"] > 0
    assert "nanoGPT" in row.peer_name


def test_decoding_has_rows_for_each_method(options):
    whats = [row.what for row in decoding.one_prompt(options)]
    assert "one prompt, sampling, plain step" in whats
    assert "one prompt, beam 5, plain step" in whats


def test_the_script_for_cuda_cards_runs_on_the_cpu(tmp_path, work):
    variables = {"TINY": "1", "NANOGPT": str(work), "PYTHON": sys.executable}
    command = ["bash", "benchmarks/gpu.sh", str(tmp_path / "results")]
    done = subprocess.run(
        command, env=os.environ | variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    results = read_json(tmp_path / "results/gpu.json")
    assert len(results["decoding"]) == 4
    assert len(results["threads"]) == 8
    ours, theirs = results["training"]
    assert ours["tokens_per_s"]["median"] > 0
    assert theirs["what"].endswith("nanoGPT")
