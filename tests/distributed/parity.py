"""Weights after 100 updates in several processes, and what ranks say to each other: parity.py STORES OUT

A script, since ranks are forked from an interpreter in which torch has not computed yet.
"""

import functools
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tinylm.base.config import InputError
from tinylm.model.transformer import TinyLM
from tinylm.train.distributed import Group
from tinylm.train.ranks import in_ranks
from tinylm.train.trainer import Trainer, TrainSettings
from tinylm.vocab.batches import TrainBatches
from tinylm.vocab.token_store import TokenStore


def weights(
    store: TokenStore,
    updates: int,
    model: TinyLM,
    settings: TrainSettings,
    pad_id: int,
    group: Group,
) -> dict[str, torch.Tensor]:
    """Of `model` after so many updates, with the last one's figures."""
    batches = TrainBatches(
        store, settings.layout, settings.batch_size, model.settings.context, pad_id, 1
    )
    trainer = Trainer(model, batches, settings, group)
    for _ in range(updates):
        figures = trainer.update(trainer.next_batches())
    return {**model.state_dict(), "figures": torch.tensor(figures, dtype=torch.float64)}


def write_weights(stores: Path, path: Path, *case_and_group: Any) -> None:
    """`weights` into a file for each rank."""
    found = weights(TokenStore(stores, "train"), *case_and_group)
    tensors = {name: tensor.contiguous() for name, tensor in found.items()}
    save_file(tensors, f"{path}-{case_and_group[-1].rank}.safetensors")


def conversation(group: Group, out: Path) -> None:
    """What the collectives give on each rank."""
    tensors = {"b": torch.arange(3.0), "a": torch.tensor(7, dtype=torch.uint8)}
    found = group.from_rank0((tensors, {"updates": 5}) if group.is_rank0 else None)
    assert found is not None
    model = {
        "model.w": torch.full((2,), 1.0 + group.rank),
        "optimizer.m": torch.full((1,), 5.0 + group.rank),
    }
    first, second = group.align(model), group.align(model)
    scored = group.summed_loss(
        lambda batches: (sum(b for b in batches) / 2, len(str(group.rank))), iter([3, 5, 9])
    )
    one = group.summed_loss(lambda batches: (float(sum(batches)), 1), iter([4]))
    answer = {
        "total": group.total(0.5, group.rank),
        "largest": group.largest(15 * (group.rank == 1)),
        "from_rank0": [{name: tensor.tolist() for name, tensor in found[0].items()}, found[1]],
        "nothing": group.from_rank0(None),
        "align": [first, second, {name: tensor.tolist() for name, tensor in model.items()}],
        "summed_loss": [scored, one],
        "threads": group.threads(5),
        "random": torch.rand(1).item() if group.seed_dropout(1, 7) is None else None,
    }
    (out / f"conversation-{group.rank}.json").write_text(json.dumps(answer))


def main() -> None:
    stores, out = Path(sys.argv[1]), Path(sys.argv[2])
    torch.set_num_threads(1)
    for name, (ranks, *case) in pickle.loads((out / "cases.pickle").read_bytes()).items():
        in_ranks(ranks, functools.partial(write_weights, stores, out / name, *case))
    in_ranks(2, lambda group: conversation(group, out))
    try:
        in_ranks(2, lambda group: group.check_same({"data": group.rank, "train.lr": 1.0}))
    except InputError as error:
        (out / "refused").write_text(str(error))


if __name__ == "__main__":
    main()
