"""What stages train and seed_train start from: the files of stage vocab, and a run assembled from them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from tinylm.base import paths
from tinylm.base.code import code_sha256
from tinylm.base.files import sha256
from tinylm.host.runtime import RuntimeSettings, conditions
from tinylm.kernels.train.ops import why_not_native
from tinylm.model.settings import ModelSettings
from tinylm.train.arithmetic import arithmetic
from tinylm.train.assembly import Assembly, assemble
from tinylm.train.compiling import why_not_compiled
from tinylm.train.distributed import Group
from tinylm.train.precision import resolved
from tinylm.train.settings import TrainSettings
from tinylm.train.snapshot import Snapshots, fingerprint
from tinylm.vocab.matrix_file import load_matrix
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import Tokenizer

SPLITS = ("train", "held_out")
TOKENIZER, MATRIX = paths.TOKENIZER, paths.EMBEDDING
DATA = [
    TOKENIZER,
    MATRIX,
    *(f"{paths.TOKENS}/{split}.{kind}" for split in SPLITS for kind in ("ids", "offsets")),
]


@dataclass(frozen=True)
class Prepared:
    """A run before its first update; `train` has each `auto` replaced by the value chosen here."""

    train: TrainSettings
    made: Assembly
    snapshots: Snapshots
    conditions: Mapping[str, Any]
    uncompiled: str  # why the blocks are not compiled; empty if they are
    why_not_native: str  # why torch alone computes; empty if native kernels do

    @property
    def measured_on(self) -> dict[str, Any]:
        """The conditions of the run, and where it went on under others, if it did."""
        return {
            **self.conditions,
            **({"mixed": "; ".join(self.snapshots.mixed)} if self.snapshots.mixed else {}),
        }

    def said(self) -> str:
        """What was chosen for this machine, in lines for the user."""
        why = self.uncompiled and f" ({self.uncompiled})"
        kernels = f"torch's ({self.why_not_native})" if self.why_not_native else "native"
        return f"precision: {self.train.precision}\nkernels: {kernels}\ncompile: {self.train.compile}{why}"

    def saved_with(self) -> Mapping[str, Any]:
        """What `save_model` records beside the weights."""
        return {"layout": self.train.layout, "tokenizer_sha256": sha256(TOKENIZER)}


def prepare(
    group: Group,
    tokenizer: Tokenizer,
    model: ModelSettings,
    train: TrainSettings,
    runtime: RuntimeSettings,
    root: str,
    script: str,
) -> Prepared:
    """Model, batches and the snapshots in `root`, the same in every rank of the group.

    script: the stage's file, from which the code that decides the run's bytes is found.
    Raises InputError if the ranks' inputs differ.
    """
    device, threads = group.device(runtime.device), group.threads(runtime.threads)
    uncompiled, chosen = why_not_compiled(train, device), resolved(train, device)
    stores = {split: TokenStore(paths.TOKENS, split) for split in SPLITS}
    matrix = torch.from_numpy(load_matrix(MATRIX))
    made = assemble(model, chosen, matrix, stores, tokenizer.pad_id, device, threads)
    no_kernels = why_not_native(chosen.precision, device)
    measured_on = conditions(device, threads, group.size) | {
        "kernels": "torch" if no_kernels else "native"
    }
    parts = fingerprint({"train": train, "model": model}, DATA, code_sha256(script))
    # each rank makes its own step from everyone's gradients: two kinds of kernels would let the weights drift apart
    same = {
        "train.precision": chosen.precision,
        "train's kernels (is there a C++ compiler?)": not no_kernels,
    }
    group.check_same(parts | same)
    parts |= group.together(arithmetic(measured_on, train, device))
    snapshots = Snapshots(root, parts, runtime.snapshot_every_s)
    return Prepared(chosen, made, snapshots, measured_on, uncompiled, no_kernels)
