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


@dataclass(frozen=True)
class TrainingData:
    """What stage vocab wrote. stores: the tokens of each of `SPLITS`. embedding: (V, D).

    unk_id: replaces the words that `train.unknown` hides; None hides none.
    """

    stores: Mapping[str, TokenStore]
    embedding: Tensor
    pad_id: int
    unk_id: int | None = None


def prepare(
    model: ModelSettings,
    train: TrainSettings,
    runtime: RuntimeSettings,
    tokenizer: Tokenizer,
    group: Group,
) -> TrainingRun:
    """Set up a run on the output of stage vocab, the same in every rank of the group, without snapshots.

    Raises InputError if a file is missing.
    """
    device = group.device(runtime.device)
    threads = max(1, runtime.threads // group.size)
    stores = {split: TokenStore(paths.TOKENS, split) for split in SPLITS}
    matrix = torch.from_numpy(load_matrix(paths.EMBEDDING))
    data = TrainingData(stores, matrix, tokenizer.pad_id, tokenizer.unk_id)
    run = new_run(model, train, data, device, threads)
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
    return replace(run, group=group, conditions=environment)


def with_snapshots(run: TrainingRun, stage: str, folder: str, every_s: float) -> TrainingRun:
    """A prepared run of this stage that writes a snapshot to `folder` every `every_s` seconds."""
    sections = {"train": run.settings, "model": run.model.settings}
    fingerprint = fingerprint_of(sections, DATA, code_sha256(stage))
    for name, value in run.conditions.items():
        if name not in NOT_IN_FINGERPRINT:
            fingerprint[name] = value
    fingerprint["numpy"] = importlib.metadata.version("numpy")  # it shuffles the stories
    return replace(run, snapshots=Snapshots(folder, fingerprint, every_s))


def new_run(
    model: ModelSettings,
    train: TrainSettings,
    data: TrainingData,
    device: torch.device | str,
    threads: int,
) -> TrainingRun:
    """Weights and batches, determined by the settings and the seed; no snapshots.

    Seeds every generator. Raises InputError if settings and width do not fit.
    """
    device = torch.device(device)
    settings = train.resolved(device)
    seed_everything(derive_seed(train.seed, "train"), threads)
    prepare_process(settings.precision, device)

    def held_out() -> Iterable[Batch]:
        return scoring_batches(
            data.stores["held_out"],
            layout=train.layout,
            batch_size=train.batch_size,
            context=model.context,
            pad_id=data.pad_id,
        )

    return TrainingRun(
        model=training_model(model, settings, data.embedding, device),
        batches=training_batches(model, train, data.stores["train"], data.pad_id, data.unk_id),
        held_out=held_out,
        settings=settings,
    )


def training_batches(
    model: ModelSettings,
    train: TrainSettings,
    store: TokenStore,
    pad_id: int,
    unk_id: int | None = None,
) -> TrainBatches:
    """The batches of a run, in the order of its seed. Raises InputError if the split has no row."""
    batches = TrainBatches(
        store,
        layout=train.layout,
        batch_size=train.batch_size,
        context=model.context,
        pad_id=pad_id,
        seed=derive_seed(train.seed, "order"),
    )
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
