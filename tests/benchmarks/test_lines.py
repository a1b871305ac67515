"""Every line runs at its smallest size and writes rows; peers that are not installed are left out."""

import os
import subprocess
import sys
import textwrap

import pytest

from benchmarks import decoding, loss, stage, training
from benchmarks.frame import Options
from tinylm.base.files import read_json

# What the driver needs of a clone's model.py; written here, small on purpose.
NANOGPT = """
    import dataclasses
    import torch
    from torch import nn
    from torch.nn import functional as F

    @dataclasses.dataclass
    class GPTConfig:
        block_size: int
        vocab_size: int
        n_layer: int
        n_head: int
        n_embd: int
        dropout: float
        bias: bool

    class GPT(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.table = nn.Embedding(config.vocab_size, config.n_embd)
            self.out = nn.Linear(config.n_embd, config.vocab_size, bias=config.bias)
            print("output that must not reach the answers")

        def configure_optimizers(self, weight_decay, learning_rate, betas, device_type):
            return torch.optim.AdamW(self.parameters(), learning_rate, betas, weight_decay=weight_decay)

        def forward(self, ids, targets=None):
            logits = self.out(self.table(ids))
            return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
"""


@pytest.fixture(scope="session")
def work(tmp_path_factory):
    """One working folder for all lines: the model to decode with is made once."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "model.py").write_text(textwrap.dedent(NANOGPT))
    return folder


@pytest.fixture
def options(work):
    return Options(trials=1, tiny=True, threads=1, work=work, nanogpt=work)


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
    limit = rows["one training step in fp32, as a share of the processor's limit"]
    assert limit.tinylm["median"] > 0 < limit.peer["median"]


def test_stage_train_is_compared_with_its_own_step(options):
    row, *_ = stage.stage(options)
    assert row.what == "stage train of the default run in fp32, beside its step on full windows"
    assert row.tinylm["median"] > 0 < row.peer["median"]


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
