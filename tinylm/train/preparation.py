"""Set up a training run: fresh weights, batches in a fixed order, snapshots."""

import importlib.metadata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from tinylm.base import paths
from tinylm.base.code import code_sha256
from tinylm.base.processes import keep_freed_memory
from tinylm.base.runtime import RuntimeSettings, conditions
from tinylm.base.seeding import derive_seed, seed_everything
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
from tinylm.vocab.embedding.matrix_file import load_matrix
from tinylm.vocab.token_store import TokenStore
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
    """Everything that `loop.train` needs in one rank of the group.

    held_out: returns the batches of the held-out split. settings: with every `auto` resolved.
    conditions: hardware, software versions, precision and kernels of the run.
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
    """Set up a stage's run on the output of stage vocab, the same in every rank of the group.

    folder: where its snapshots are kept. Raises InputError if a file is missing.
    """
    device = group.device(runtime.device)
    threads = max(1, runtime.threads // group.size)
    stores = {split: TokenStore(paths.TOKENS, split) for split in SPLITS}
    matrix = torch.from_numpy(load_matrix(paths.EMBEDDING))
    run = new_run(model, train, matrix, stores, tokenizer.pad_id, device, threads, tokenizer.unk_id)
    settings = run.settings
    no_kernels = why_not_native(device)
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
    fingerprint["numpy"] = importlib.metadata.version("numpy")  # it shuffles the stories
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
    """Weights and batches, determined by the settings and the seed; no snapshots.

    embedding: (V, D). Seeds every generator. Raises InputError if settings and width do not fit.
    """
    device = torch.device(device)
    settings = train.resolved(device)
    seed_everything(derive_seed(train.seed, "train"), threads)
    prepare_process(settings.precision, device)
    fresh = training_model(model, settings, embedding, device)
    batches = training_batches(model, train, stores["train"], pad_id, unk_id)
    shape = (train.layout, train.batch_size, model.context, pad_id)
    return TrainingRun(
        fresh, batches, lambda: scoring_batches(stores["held_out"], *shape), settings
    )


def training_batches(
    model: ModelSettings,
    train: TrainSettings,
    store: TokenStore,
    pad_id: int,
    unk_id: int | None = None,
) -> TrainBatches:
    """The batches of a run, in the order of its seed. Raises InputError if the split has no row."""
    shape = (train.layout, train.batch_size, model.context, pad_id)
    order = derive_seed(train.seed, "order")
    batches = TrainBatches(store, *shape, order)
    return batches.with_unknown(unk_id, train.unknown)


def prepare_process(precision: str, device: torch.device) -> None:
    """Tune a training process for speed, without changing any result on a CPU.

    On CUDA, float32 matrix products use TF32 if, and only if, the precision is tf32.
    """
    keep_freed_memory()
    # In deterministic mode torch fills uninitialised tensors, but nothing here reads them.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"


def training_model(
    model: ModelSettings, train: TrainSettings, embedding: Tensor, device: torch.device
) -> TinyLM:
    """A freshly initialised model on the (V, D) embedding, with the fastest operations for the run.

    train: with every `auto` resolved. Raises InputError if settings and width do not fit.
    """
    compiles = train.compile == "true"
    ops = training_ops(device, train.attention == "torch", compiles)
    run = compiled_run_block() if compiles else run_block
    return new_model(model, embedding, ops, Checkpointing(train.recompute, run)).to(device)
