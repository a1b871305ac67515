"""Contenders of the line `loss`: training on a number of tokens is the setup, so the clock runs from the start of the
process; the step then scores what was trained.

nanoGPT and nanochat: windows at random places, each with its own optimizer and schedule. tinylm: `assemble`'s parts,
the real Trainer with its recipe, skip-gram vectors trained first if asked for. Setup of all: folder and shape of the
data, seed, tokens.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from benchmarks.contenders.nanogpt import NanoGPT, learning_rate, windows
from benchmarks.serve import Step
from benchmarks.shape import (
    AS_NANOGPT,
    PAD_ID,
    Shape,
    model_settings,
    section,
    train_settings,
)
from tinylm.embedding.matrix import embedding_matrix
from tinylm.embedding.settings import EmbeddingSettings
from tinylm.train.assembly import assemble
from tinylm.train.split_loss import split_loss
from tinylm.train.trainer import Trainer
from tinylm.vocab.batches import Batch, scoring_batches
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import open_tokenizer


def _scores(folder: Path, shape: Shape, batch_loss: Callable[[Batch], float]) -> Step:
    """Nats per token of held-out and evaluation in non-overlapping windows; batch_loss: a batch's total nats."""

    def split(name: str) -> float:
        batches = list(
            scoring_batches(
                TokenStore(folder / "tokens", name), "stream", 32, shape.context, PAD_ID
            )
        )
        return sum(map(batch_loss, batches)) / sum(batch.tokens for batch in batches)

    return lambda _: {name: split(name) for name in ("held_out", "evaluation")}


def _peers_data(setup: Mapping[str, Any]) -> tuple[Path, Shape, Any, int]:
    """(folder, shape, train ids, updates) of a peer, whose seed is set."""
    torch.set_num_threads(setup["threads"])
    torch.manual_seed(setup["seed"])
    shape, folder = Shape(**setup["shape"]), Path(setup["folder"])
    return (
        folder,
        shape,
        TokenStore(folder / "tokens", "train").ids,
        max(1, setup["tokens"] // shape.step_tokens),
    )


def nanogpt(setup: Mapping[str, Any]) -> Step:
    """setup: clone, mode, lr"""
    folder, shape, ids, updates = _peers_data(setup)
    peer = NanoGPT(setup["clone"], shape, setup["mode"], lr=setup["lr"])
    for update in range(updates):
        peer.update(windows(ids, shape), learning_rate(update, updates, setup["lr"]))
    peer.raw.eval()

    @torch.no_grad()
    def batch_loss(batch: Batch) -> float:
        return float(peer.raw(batch.inputs, batch.targets)[1]) * batch.tokens

    return _scores(folder, shape, batch_loss)


def ours(setup: Mapping[str, Any]) -> Step:
    """setup: train, model, embedding: changes to the complete preset's sections"""
    torch.set_num_threads(setup["threads"])
    shape, folder = Shape(**setup["shape"]), Path(setup["folder"])
    vectors = section(
        "embedding", EmbeddingSettings, {"width": shape.width} | setup.get("embedding", {})
    )

    def texts() -> Any:
        with open(folder / "train.txt", encoding="utf-8") as handle:
            yield from handle

    stores = {split: TokenStore(folder / "tokens", split) for split in ("train", "held_out")}
    matrix, _ = embedding_matrix(
        vectors, open_tokenizer(folder / "tokenizer.json"), texts, lambda: stores["train"].ids
    )
    settings = train_settings(
        shape, tokens=setup["tokens"], seed=setup["seed"], **setup.get("train", {})
    )
    form = model_settings(shape, AS_NANOGPT | setup.get("model", {}))
    made = assemble(
        form, settings, torch.from_numpy(matrix), stores, PAD_ID, "cpu", setup["threads"]
    )
    trainer = Trainer(made.model, made.batches, settings)
    while (upcoming := trainer.next_batches()) and trainer.tokens + sum(
        b.tokens for b in upcoming
    ) <= trainer.end:
        trainer.update(upcoming)
    return _scores(folder, shape, lambda batch: split_loss(made.model, [batch])[0])
