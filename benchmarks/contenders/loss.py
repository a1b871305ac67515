"""Contenders of the line `loss`: training on a number of tokens is the setup, so that the clock runs from the start of
the process; the step then scores what was trained.

Every setup has folder and shape of the data, seed, and tokens. The answer is {held_out, evaluation}, nats per token in
non-overlapping windows.
"""

from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.contenders.nanogpt import NanoGPT, learning_rate, windows
from benchmarks.frame import Setup, Step
from benchmarks.shape import PAD_ID, Shape, model_settings, section, train_settings
from tinylm.train.preparation import TrainingData, new_run
from tinylm.train.trainer import Trainer
from tinylm.train.validation import split_loss
from tinylm.vocab.batches import Batch, scoring_batches
from tinylm.vocab.embedding.matrix import embedding_matrix
from tinylm.vocab.embedding.settings import EmbeddingSettings
from tinylm.vocab.open_tokenizer import open_tokenizer
from tinylm.vocab.token_store import TokenStore

PRESET = "tinystories-2m"  # our recipe; its word vectors come from counts
ROWS = 32  # of a batch that is scored


def _scores(folder: Path, shape: Shape, batch_loss: Callable[[Batch], float]) -> Step:
    """batch_loss: the total nats of a batch."""

    def split_score(split: str) -> float:
        store = TokenStore(folder / "tokens", split)
        batches = list(scoring_batches(store, "stream", ROWS, shape.context, PAD_ID))
        return sum(map(batch_loss, batches)) / sum(batch.tokens for batch in batches)

    return lambda _: {split: split_score(split) for split in ("held_out", "evaluation")}


def nanogpt(setup: Setup) -> Step:
    """nanoGPT from the user's clone: random windows, its optimizer and schedule. setup: clone, mode, lr"""
    torch.set_num_threads(setup["threads"])
    torch.manual_seed(setup["seed"])
    shape = Shape(**setup["shape"])
    folder = Path(setup["folder"])
    ids = TokenStore(folder / "tokens", "train").ids
    updates = max(1, setup["tokens"] // shape.step_tokens)
    peer = NanoGPT(setup["clone"], shape, setup["mode"], lr=setup["lr"])
    for update in range(updates):
        peer.update(windows(ids, shape), learning_rate(update, updates, setup["lr"]))
    peer.raw.eval()

    @torch.no_grad()
    def batch_loss(batch: Batch) -> float:
        return float(peer.raw(batch.inputs, batch.targets)[1]) * batch.tokens

    return _scores(folder, shape, batch_loss)


def ours(setup: Setup) -> Step:
    """tinylm with its recipe, vectors included. setup: train, changes of that section of the preset."""
    torch.set_num_threads(setup["threads"])
    shape = Shape(**setup["shape"])
    folder = Path(setup["folder"])
    stores = {split: TokenStore(folder / "tokens", split) for split in ("train", "held_out")}
    vectors = section("embedding", EmbeddingSettings, {"width": shape.width}, PRESET)
    tokenizer = open_tokenizer(folder / "tokenizer.json")
    matrix, _ = embedding_matrix(vectors, tokenizer, list, lambda: stores["train"].ids)
    budget = {"tokens": setup["tokens"], "seed": setup["seed"]}
    settings = train_settings(shape, PRESET, **budget, **setup["train"])
    model = model_settings(shape, {}, PRESET)
    embedding = torch.from_numpy(matrix)
    data = TrainingData(stores, embedding, PAD_ID)
    made = new_run(model, settings, data, "cpu", setup["threads"])
    trainer = Trainer(made.model, made.batches, made.settings)
    while batches := trainer.next_batches():
        trainer.update(batches)
    return _scores(folder, shape, lambda batch: split_loss(made.model, [batch])[0])
