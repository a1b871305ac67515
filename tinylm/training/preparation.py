"""What stages train and seed_train start from: the files of stage vocab, and a run put together from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tinylm.base.files import sha256
from tinylm.host.runtime import RuntimeSettings, conditions, same_bytes_need
from tinylm.model.settings import ModelSettings
from tinylm.text.stores.matrix_file import load_matrix
from tinylm.text.stores.token_store import TokenStore
from tinylm.text.tokens.tokenizer import Tokenizer
from tinylm.training.assembly import Assembly, assemble
from tinylm.training.compiling import why_not_compiled
from tinylm.training.distributed import Group
from tinylm.training.precision import resolved, why_not_looped
from tinylm.training.snapshot import Snapshots, fingerprint
from tinylm.training.trainer import TrainSettings

SPLITS = ("train", "held_out")
TOKENIZER, MATRIX = "data/vocab/tokenizer.json", "data/vocab/embedding.safetensors"
DATA = [TOKENIZER, MATRIX, *(f"data/tokens/{split}.{kind}" for split in SPLITS for kind in ("ids", "offsets"))]
CODE = ["tinylm/model", "tinylm/training", "tinylm/text/batches.py"]


@dataclass(frozen=True)
class Prepared:
    """A run before its first update; `train` has each `auto` in its place what it stands for here."""

    train: TrainSettings
    made: Assembly
    snapshots: Snapshots
    measured_on: dict[str, Any]
    uncompiled: str  # why the blocks are not compiled; empty where they are
    unlooped: str  # why the loops are torch's; empty where they are compiled

    def said(self) -> str:
        """What was chosen for this machine, in lines for people."""
        why = self.uncompiled and f" ({self.uncompiled})"
        loops = self.measured_on["loops"] + (self.unlooped and f" ({self.unlooped})")
        return f"precision: {self.train.precision}\nloops: {loops}\ncompile: {self.train.compile}{why}"

    def saved_with(self) -> Mapping[str, Any]:
        """What `save_model` notes beside the weights."""
        return {"layout": self.train.layout, "tokenizer_sha256": sha256(TOKENIZER)}


def prepare(
    group: Group,
    tokenizer: Tokenizer,
    model: ModelSettings,
    train: TrainSettings,
    runtime: RuntimeSettings,
    root: str,
    code: Sequence[str],
) -> Prepared:
    """Model, batches and the snapshots in `root`, alike in every rank of the group.

    code: files of the stage's own that decide its bytes, beside CODE. Raises InputError where the ranks' inputs differ.
    """
    device, threads = group.device(runtime.device), group.threads(runtime.threads)
    uncompiled, train = why_not_compiled(train, device), resolved(train, device)
    stores = {split: TokenStore("data/tokens", split) for split in SPLITS}
    matrix = torch.from_numpy(load_matrix(MATRIX))
    made = assemble(model, train, matrix, stores, tokenizer.pad_id, device, threads)
    parts = fingerprint({"train": train, "model": model}, DATA, [*code, *CODE])
    unlooped = why_not_looped(train, made.model)
    # each rank steps by itself on the gradients of all: loops of two kinds would let the weights drift apart
    group.check_same(parts | {"train's loops (is there a C++ compiler?)": not unlooped})
    measured_on = conditions(device, threads, group.size) | {"loops": "torch" if unlooped else "compiled"}
    snapshots = Snapshots(root, parts, runtime.snapshot_every_s, conditions=same_bytes_need(measured_on))
    return Prepared(train, made, snapshots, measured_on, uncompiled, unlooped)
