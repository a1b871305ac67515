"""One run of the line `loss`, in a process of its own, from its start on: train for so many tokens, then score.

`python -m tinylm.benchmarks.contenders.to_loss JSON` prints "trained" as training ends, where the clock stops, then the
losses as JSON. nanoGPT: windows at random places, AdamW, cosine to the horizon. tinylm: `assemble`'s parts, the real
Trainer, its recipe, skip-gram vectors trained first where asked for.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tinylm.benchmarks.loss_data import losses
from tinylm.benchmarks.shape import AS_NANOGPT, PAD_ID, Shape, model_settings, section, train_settings
from tinylm.text.stores.token_store import TokenStore

TRAINED = "trained"


def nanogpt(task: Mapping[str, Any], shape: Shape, folder: Path) -> dict[str, float]:
    """task: clone, mode, lr, seed, tokens, dropout (in the shape)."""
    from tinylm.benchmarks.contenders.nanogpt import NanoGPT, learning_rate

    torch.manual_seed(task["seed"])
    ids = TokenStore(folder / "tokens", "train").ids
    peer = NanoGPT(task["clone"], shape, task["mode"], lr=task["lr"])
    updates = max(1, task["tokens"] // shape.step_tokens)
    for update in range(updates):
        peer.update(peer.windows(ids), learning_rate(update, updates, task["lr"]))
    print(TRAINED, flush=True)
    peer.raw.eval()

    @torch.no_grad()
    def nats(batch: Any) -> float:
        return float(peer.raw(batch.inputs, batch.targets)[1]) * batch.tokens

    return losses(folder, shape, nats)


def tinylm(task: Mapping[str, Any], shape: Shape, folder: Path) -> dict[str, float]:
    """task: tokens, seed; train, model, embedding: changes of the complete preset's sections."""
    from tinylm.scoring.split_loss import split_loss
    from tinylm.text.tokens.tokenizer import open_tokenizer
    from tinylm.text.vectors.matrix import embedding_matrix
    from tinylm.text.vectors.settings import EmbeddingSettings
    from tinylm.training.assembly import assemble
    from tinylm.training.trainer import Trainer

    vectors = section("embedding", EmbeddingSettings, {"width": shape.width} | task.get("embedding", {}))

    def texts() -> Any:
        with open(folder / "train.txt", encoding="utf-8") as handle:
            yield from handle

    matrix, _ = embedding_matrix(vectors, open_tokenizer(folder / "tokenizer.json"), texts)
    stores = {split: TokenStore(folder / "tokens", split) for split in ("train", "held_out")}
    settings = train_settings(shape, tokens=task["tokens"], seed=task["seed"], **task.get("train", {}))
    form = model_settings(shape, AS_NANOGPT | task.get("model", {}))
    made = assemble(form, settings, torch.from_numpy(matrix), stores, PAD_ID, "cpu", task["threads"])
    trainer = Trainer(made.model, made.batches, settings)
    while (upcoming := trainer.next_batches()) and trainer.tokens + sum(b.tokens for b in upcoming) <= trainer.end:
        trainer.update(upcoming)
    print(TRAINED, flush=True)
    return losses(folder, shape, lambda batch: split_loss(made.model, [batch])[0])


def score(task: Mapping[str, Any]) -> dict[str, float]:
    """Train and score as the task says."""
    torch.set_num_threads(task["threads"])
    side = nanogpt if task["side"] == "nanoGPT" else tinylm
    return side(task, Shape(**task["shape"]), Path(task["folder"]))


def main() -> None:
    print(json.dumps(score(json.loads(sys.argv[1]))), flush=True)


if __name__ == "__main__":
    main()
