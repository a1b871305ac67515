"""A run under torchrun for test_distributed: ranks_script.py FOLDER PROCESSES [RANK UPDATE ACTION]

Each rank writes its weights after UPDATES updates. ACTION is executed in one rank before an update.
"""

import os
import pickle
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tinylm.host.command import guard, signals_noted
from tinylm.train.distributed import Group, is_rank, joined_group, start_ranks
from tinylm.train.trainer import Trainer
from tinylm.vocab.batches import TrainBatches
from tinylm.vocab.token_store import TokenStore


def weights(folder: Path, group: Group, action: tuple[str, ...] = ()) -> dict[str, Any]:
    """Of the model after its updates, with the last one's numbers."""
    case = pickle.loads((folder / "case.pickle").read_bytes())
    settings, model = case["settings"], case["model"]
    shape = (settings.layout, settings.batch_size, model.settings.context, case["pad_id"], 1)
    batches = TrainBatches(TokenStore(folder, "train"), *shape)
    trainer = Trainer(model, batches, settings, group)
    for update in range(case["updates"]):
        if action[:2] == (str(group.rank), str(update)):
            exec(action[2])
        numbers = trainer.update(trainer.next_batches())
    return {**model.state_dict(), "numbers": torch.tensor(numbers, dtype=torch.float64)}


def main() -> None:
    folder, processes, *action = sys.argv[1:]
    torch.set_num_threads(1)
    if not is_rank():
        start_ranks(int(processes), ["-m", "tests.train.ranks_script", *sys.argv[1:]])
        return
    with joined_group(int(processes)) as group:
        print(f"rank {group.rank} of {group.size}", flush=True)
        with signals_noted():
            state = weights(Path(folder), group, tuple(action))
        tensors = {name: tensor.contiguous() for name, tensor in state.items()}
        save_file(tensors, f"{folder}/rank-{group.rank}.safetensors")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(guard(main))
