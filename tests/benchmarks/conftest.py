"""Options of a tiny run, and a nanoGPT of a few lines."""

import textwrap

import pytest

from benchmarks.frame import Options

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
