"""A run before its first update: fresh weights, batches in their order, snapshots."""

import importlib.metadata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tinylm.base import paths
from tinylm.base.code import code_sha256
from tinylm.base.config import PARAMS_FILE
from tinylm.base.printable import visible
from tinylm.base.seeding import derive_seed, seed_everything
from tinylm.host.memory import keep_freed_memory
from tinylm.host.runtime import RuntimeSettings, conditions
from tinylm.kernels.train.ops import compiled_run_block, training_ops, why_not_native
from tinylm.model.checkpoint import new_model
from tinylm.model.recompute import Checkpointing, run_block
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import TinyLM
from tinylm.train.distributed import Group
from tinylm.train.precision import records_graphs, resolved
from tinylm.train.sampling import sample
from tinylm.train.settings import TrainSettings
from tinylm.train.snapshot import Snapshots, fingerprint
from tinylm.vocab.batches import Batch, TrainBatches, scoring_batches
from tinylm.vocab.kinds import open_tokenizer
from tinylm.vocab.token_store import TokenStore, load_matrix
from tinylm.vocab.tokenizer import Tokenizer

SPLITS = ("train", "held_out")
NO_BITS = ("cores", "python", "date")  # conditions that change no bit of a result
DATA = [
    paths.TOKENIZER,
    paths.EMBEDDING,
    *(f"{paths.TOKENS}/{split}.{kind}" for split in SPLITS for kind in ("ids", "offsets")),
]


def training_model(
    model: ModelSettings, train: TrainSettings, embedding: Tensor, device: Any
) -> TinyLM:
    """Fresh weights over the (V, D) matrix, with the fastest operations for such a run.

    Raises InputError if settings and width do not fit.
    """
    train = resolved(train, device)
    run = compiled_run_block() if train.compile == "true" else run_block
    run_blocks = Checkpointing(train.recompute, run)
    ops = training_ops(train.precision, device, train.attention == "torch", train.compile == "true")
    return new_model(model, embedding, ops, run_blocks).to(device)


def prepare_process(precision: str, device: torch.device) -> None:
    """Set up a training process for speed; no result changes on a CPU.

    On CUDA, float32 products round their inputs to tf32 if that is the precision, and only then.
    """
    keep_freed_memory()
    # With deterministic kernels torch fills each new tensor, but nothing here reads those values.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"


@dataclass(frozen=True)
class Assembly:
    """The first arguments of `loop.train`."""

    model: TinyLM
    batches: TrainBatches
    held_out: Callable[[], Iterator[Batch]]


def assemble(
    model: ModelSettings,
    train: TrainSettings,
    embedding: Tensor,
    stores: Mapping[str, TokenStore],
    pad_id: int,
    device: Any,
    threads: int,
    unk_id: int | None = None,
) -> Assembly:
    """Weights and batches as settings and seed decide them; seeds every generator.

    embedding (V, D). Raises InputError if settings and width do not fit.
    """
    device = torch.device(device)
    seed_everything(derive_seed(train.seed, "train"), threads)
    prepare_process(resolved(train, device).precision, device)
    fresh = training_model(model, train, embedding, device)
    shape = (train.layout, train.batch_size, model.context, pad_id)
    order = derive_seed(train.seed, "order")
    batches = TrainBatches(stores["train"], *shape, order, unk_id, train.unknown)
    return Assembly(fresh, batches, lambda: scoring_batches(stores["held_out"], *shape))


@dataclass(frozen=True)
class Run(Assembly):
    """A run before its first update, in one of the group's processes.

    settings: section `train` with each `auto` replaced by its value here. conditions: what its times
    depend on. sample_prompt: the ids of
    runtime.sample_prompt.
    """

    settings: TrainSettings
    conditions: dict[str, Any]
    snapshots: Snapshots
    tokenizer: Tokenizer
    sample_prompt: list[int]

    def print_sample(self, tokens: int) -> None:
        """Print a sample of the model; tokens: the number that it has been trained on."""
        ids = sample(self.model, self.sample_prompt, self.tokenizer.eos_id, self.settings.seed)
        text = visible(self.tokenizer.decode(ids))
        print(f"sample after {tokens:,} tokens: {text}", flush=True)


def prepare(
    stage: str,
    model: ModelSettings,
    train: TrainSettings,
    runtime: RuntimeSettings,
    group: Group,
    folder: str,
) -> Run:
    """Model, batches and the snapshots in `folder`, the same in every rank of the group.

    stage: its name in dvc.yaml, which lists its code. Raises InputError if an input is missing.
    """
    device = group.device(runtime.device)
    threads = max(1, runtime.threads // group.local_size)
    settings = resolved(train, device)
    tokenizer = open_tokenizer(paths.TOKENIZER)
    prompt = tokenizer.encode_prompt(runtime.sample_prompt, f"{PARAMS_FILE}: runtime.sample_prompt")
    stores = {split: TokenStore(paths.TOKENS, split) for split in SPLITS}
    matrix = torch.from_numpy(load_matrix(paths.EMBEDDING))
    pad_id = tokenizer.pad_id
    unk_id = tokenizer.unk_id
    assembly = assemble(model, settings, matrix, stores, pad_id, device, threads, unk_id)

    no_kernels = why_not_native(settings.precision, device)
    for key in ("precision", "attention", "compile"):
        print(f"{key}: {getattr(settings, key)}")
    if device.type == "cuda":
        print(f"CUDA graphs: {records_graphs(settings, device)}")
    print(f"kernels: torch's ({no_kernels})" if no_kernels else "kernels: native")
    measured_on = conditions(device, threads, group.size)
    measured_on["kernels"] = "torch" if no_kernels else "native"
    measured_on["precision"] = settings.precision

    parts = fingerprint({"train": settings, "model": model}, DATA, code_sha256(stage))
    for name, value in measured_on.items():
        if name not in NO_BITS:
            parts[name] = value
    parts["numpy"] = importlib.metadata.version("numpy")  # draws the order of the stories
    snapshots = Snapshots(folder, parts, runtime.snapshot_every_s)
    return Run(
        **vars(assembly),
        settings=settings,
        conditions=measured_on,
        snapshots=snapshots,
        tokenizer=tokenizer,
        sample_prompt=prompt,
    )
