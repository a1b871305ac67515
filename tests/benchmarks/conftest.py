"""Options of a tiny run in this process, a nanoGPT of a few lines, and a model to decode with."""

import textwrap

import pytest

from tinylm.benchmarks.options import Options

# What the driver asks of a clone's model.py; written here, small on purpose.
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
            print("chatter that must not reach the answers")

        def configure_optimizers(self, weight_decay, learning_rate, betas, device_type):
            return torch.optim.AdamW(self.parameters(), learning_rate, betas, weight_decay=weight_decay)

        def forward(self, ids, targets=None):
            logits = self.out(self.table(ids))
            return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
"""

# The same of nanochat's package.
NANOCHAT = """
    import dataclasses
    import torch
    from torch import nn
    from torch.nn import functional as F

    @dataclasses.dataclass
    class GPTConfig:
        sequence_len: int = 2048
        vocab_size: int = 32768
        n_layer: int = 12
        n_head: int = 6
        n_kv_head: int = 6
        n_embd: int = 768
        window_pattern: str = "SSSL"

    class GPT(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.table = nn.Embedding(config.vocab_size, config.n_embd)
            self.out = nn.Linear(config.n_embd, config.vocab_size, bias=False)
            print("chatter that must not reach the answers")

        def init_weights(self):
            nn.init.zeros_(self.out.weight)

        def num_scaling_params(self):
            return {"transformer_matrices": 10, "lm_head": self.out.weight.numel()}

        def setup_optimizer(self, unembedding_lr, embedding_lr, scalar_lr, matrix_lr, weight_decay):
            groups = [
                {"kind": "adamw", "params": [self.table.weight], "lr": embedding_lr},
                {"kind": "muon", "params": [self.out.weight], "lr": matrix_lr, "weight_decay": weight_decay},
            ]
            optimizer = torch.optim.AdamW(groups)
            for group in optimizer.param_groups:
                group["initial_lr"] = group["lr"]
            return optimizer

        def forward(self, ids, targets=None):
            logits = self.out(self.table(ids))
            return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
"""


@pytest.fixture(scope="session")
def work(tmp_path_factory):
    """One working folder for all lines: the model to decode with is made once."""
    folder = tmp_path_factory.mktemp("peers")
    (folder / "model.py").write_text(textwrap.dedent(NANOGPT))
    (folder / "nanochat").mkdir()
    (folder / "nanochat/gpt.py").write_text(textwrap.dedent(NANOCHAT))
    return folder


@pytest.fixture
def options(work, tmp_path):
    return Options(
        trials=1, size="tiny", threads=1, work=work, results=tmp_path / "results.json", page=tmp_path / "page.md",
        nanogpt=work, nanochat=work, inline=True,
    )  # fmt: skip
