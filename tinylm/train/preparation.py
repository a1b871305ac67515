"""A run before its first update: fresh weights, batches in their order, snapshots."""

import importlib.metadata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from tinylm.base import paths
from tinylm.base.code import code_sha256
from tinylm.base.seeding import derive_seed, seed_everything
from tinylm.host.processes import keep_freed_memory
from tinylm.host.runtime import RuntimeSettings, conditions
from tinylm.kernels.train.ops import compiled_run_block, training_ops, why_not_native
from tinylm.model.checkpoint import new_model
from tinylm.model.recompute import Checkpointing, run_block
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import TinyLM
from tinylm.train.distributed import Group
from tinylm.train.graphs import records_graphs
from tinylm.train.settings import TrainSettings
from tinylm.train.snapshot import Snapshots, fingerprint_of
from tinylm.vocab.batches import Batch, TrainBatches, scoring_batches
from tinylm.vocab.token_store import TokenStore, load_matrix
from tinylm.vocab.tokenizer import Tokenizer

SPLITS = ("train", "held_out")
NOT_IN_FINGERPRINT = ("cores", "python", "date")  # they do not affect results
DATA = [
    paths.TOKENIZER,
    paths.EMBEDDING,
    *(f"{paths.TOKENS}/{split}.{kind}" for split in SPLITS for kind in ("ids", "offsets")),
]


@dataclass(frozen=True)
class TrainingRun:
    """What `loop.train` needs, in one of the group's processes.

    held_out: the batches of the held-out split. settings: with no value `auto`. conditions: what
    times were measured on, and what the run computes with.
    """

    model: TinyLM
    batches: TrainBatches
    held_out: Callable[[], Iterable[Batch]]
    settings: TrainSettings
    group: Group = field(default_factory=Group)
    snapshots: Snapshots | None = None
    conditions: Mapping[str, Any] = field(default_factory=dict)


def prepare(
    stage: str,
    model: ModelSettings,
    train: TrainSettings,
    runtime: RuntimeSettings,
    tokenizer: Tokenizer,
    group: Group,
    folder: str,
) -> TrainingRun:
    """The run of a stage over the files of stage vocab, the same in every rank of the group.

    folder: of its snapshots. Raises InputError if a file is missing.
    """
    device = group.device(runtime.device)
    threads = max(1, runtime.threads // group.local_size)
    stores = {split: TokenStore(paths.TOKENS, split) for split in SPLITS}
    matrix = torch.from_numpy(load_matrix(paths.EMBEDDING))
    run = new_run(model, train, matrix, stores, tokenizer.pad_id, device, threads, tokenizer.unk_id)
    settings = run.settings
    no_kernels = why_not_native(settings.precision, device)
    for key in ("precision", "attention", "compile"):
        print(f"{key}: {getattr(settings, key)}")
    if device.type == "cuda":
        print(f"CUDA graphs: {records_graphs(settings, device)}")
    print(f"kernels: torch's ({no_kernels})" if no_kernels else "kernels: native")
    environment = conditions(device, threads, group.size)
    environment["kernels"] = "torch" if no_kernels else "native"
    environment["precision"] = settings.precision

    fingerprint = fingerprint_of({"train": settings, "model": model}, DATA, code_sha256(stage))
    for name, value in environment.items():
        if name not in NOT_IN_FINGERPRINT:
            fingerprint[name] = value
    fingerprint["numpy"] = importlib.metadata.version("numpy")  # draws the order of the stories
    snapshots = Snapshots(folder, fingerprint, runtime.snapshot_every_s)
    return replace(run, group=group, snapshots=snapshots, conditions=environment)


def new_run(
    model: ModelSettings,
    train: TrainSettings,
    embedding: Tensor,
    stores: Mapping[str, TokenStore],
    pad_id: int,
    device: Any,
    threads: int,
    unk_id: int | None = None,
) -> TrainingRun:
    """Weights and batches as settings and seed decide them, without snapshots.

    embedding (V, D). Seeds every generator. Raises InputError if settings and width do not fit.
    """
    device = torch.device(device)
    settings = train.resolved(device)
    seed_everything(derive_seed(train.seed, "train"), threads)
    prepare_process(settings.precision, device)
    fresh = training_model(model, settings, embedding, device)
    shape = (train.layout, train.batch_size, model.context, pad_id)
    order = derive_seed(train.seed, "order")
    batches = TrainBatches(stores["train"], *shape, order, unk_id, train.unknown)
    return TrainingRun(
        fresh, batches, lambda: scoring_batches(stores["held_out"], *shape), settings
    )


def prepare_process(precision: str, device: torch.device) -> None:
    """Set up a training process for speed; no result changes on a CPU.

    On CUDA, float32 products round their inputs to tf32 if that is the precision, and only then.
    """
    keep_freed_memory()
    # With deterministic kernels torch fills each new tensor, but nothing here reads those values.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"


def training_model(
    model: ModelSettings, train: TrainSettings, embedding: Tensor, device: torch.device
) -> TinyLM:
    """Fresh weights over the (V, D) matrix, with the fastest operations for such a run.

    train: with no value `auto`. Raises InputError if settings and width do not fit.
    """
    compiles = train.compile == "true"
    ops = training_ops(train.precision, device, train.attention == "torch", compiles)
    run = compiled_run_block() if compiles else run_block
    return new_model(model, embedding, ops, Checkpointing(train.recompute, run)).to(device)
