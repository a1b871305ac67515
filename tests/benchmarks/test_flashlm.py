"""FlashLM's script is run with our tokens and what it has learnt is scored; a stand-in of a few lines has its place."""

import math
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tinylm.base import paths
from tinylm.base.config import InputError
from tinylm.benchmarks import flashlm
from tinylm.host.command import CommandFailed
from tinylm.vocab.bpe import train_bpe
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.token_store import write_store

# The names that the script has and that are asked for: its data, one bias for each token in place of a model.
SCRIPT = """
    import argparse, json, os
    import numpy as np, torch
    from torch import nn
    torch.set_num_threads(4)
    D, K, N_LAYERS, SEQ_LEN = 1, 1, 1, 8
    here = os.path.dirname(os.path.abspath(__file__))

    class CPUFlowV97(nn.Module):
        def __init__(self, vocab, d, k, layers):
            super().__init__()
            self.embed = nn.Embedding(vocab, 1)

        def _forward(self, ids):
            return torch.ones(*ids.shape, 1)

    if __name__ == '__main__':
        parser = argparse.ArgumentParser()
        parser.add_argument('--minutes', type=float)
        args = parser.parse_args()
        steps = int(args.minutes * 60 * 5500 / 1000)
        ids = np.fromfile(os.path.join(here, 'data_v10/train.bin'), dtype=np.uint16)
        vocab = json.load(open(os.path.join(here, 'data_v10/meta.json')))['vocab']
        model = CPUFlowV97(vocab, D, K, N_LAYERS)
        counts = np.bincount(ids, minlength=vocab) + 1.0
        model.embed.weight.data[:, 0] = torch.from_numpy(np.log(counts / counts.sum()))
        print(f"steps {steps}, Speed: 1234 tok/s")
        print(f"\\n--- Final Diagnostics ---")
"""


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    """Tokens of a workspace, and a clone with the stand-in."""
    monkeypatch.chdir(tmp_path)
    stories = ["The cat sat on the mat. It was happy!", "A dog ran to the cat."] * 40
    settings = VocabSettings(tokenizer="bpe", lower_case=False, max_size=600)
    tokenizer = train_bpe(stories, settings)
    tokenizer.save(tmp_path / paths.VOCAB / "tokenizer.json")
    for split in ("train", "held_out", "evaluation"):
        write_store(paths.TOKENS, split, map(tokenizer.encode_story, stories[:5]), len(tokenizer))
    script = tmp_path / "clone" / flashlm.SCRIPT
    script.parent.mkdir(parents=True)
    script.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    return SimpleNamespace(
        folder=tmp_path / "run", clone=tmp_path / "clone", tokenizer=tokenizer, script=script
    )


def test_its_script_trains_on_our_tokens_and_is_scored_on_ours(workspace):
    flashlm.prepare(workspace.folder, workspace.clone)
    _, said = flashlm.train(workspace.folder, 1.0, 100, seed=3)
    assert flashlm.speed(said) == 1234
    assert "steps 6," in said  # 60 s of 100 tokens
    ids = np.fromfile(workspace.folder / "data_v10/val.bin", dtype=np.uint16)
    counts = (
        np.bincount(ids, minlength=len(workspace.tokenizer)) + 1.0
    )  # train and evaluation are the same stories here
    expected = -np.log(counts / counts.sum())[ids[1:]].sum()
    assert flashlm.score(workspace.folder) == pytest.approx(expected, rel=1e-5)
    assert math.isfinite(expected)
    torch.set_num_threads(2)


def test_another_script_is_refused(workspace):
    workspace.script.write_text("print('Speed: 3 tok/s')", encoding="utf-8")
    flashlm.prepare(workspace.folder, workspace.clone)
    with pytest.raises(InputError, match="allowed: FlashLM as of 2026-05"):
        flashlm.train(workspace.folder, 1.0, 100, seed=1)
    with pytest.raises(CommandFailed, match="did not say its speed"):
        flashlm.speed("nothing")


def test_tokens_of_another_tokenizer_are_refused(workspace):
    settings = VocabSettings(tokenizer="bpe", lower_case=False, max_size=300)
    train_bpe(["The cat sat on the mat."], settings).save(f"{paths.VOCAB}/tokenizer.json")
    with pytest.raises(InputError, match="data/tokens: not of the tokenizer in data/vocab"):
        flashlm.prepare(workspace.folder, workspace.clone)
    assert not workspace.folder.exists()


def test_words_are_refused(workspace):
    settings = VocabSettings(tokenizer="bpe", lower_case=True, max_size=600)
    train_bpe(["The cat"], settings).save(f"{paths.VOCAB}/tokenizer.json")
    with pytest.raises(InputError, match="bpe with lower_case: false"):
        flashlm.prepare(workspace.folder, workspace.clone)
