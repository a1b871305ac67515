"""Gradient checkpointing: memory, time and gradients of each recomputation mode, and none, at increasing depth."""

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

import torch

from tinylm.base import paths
from tinylm.base.machine import pick_device
from tinylm.base.seeding import derive_seed, seed_everything
from tinylm.bench import measure
from tinylm.bench.measure import CkptBenchSettings
from tinylm.host.command import CommandFailed
from tinylm.host.runtime import RuntimeSettings
from tinylm.kernels.train.ops import training_ops
from tinylm.model.checkpoint import new_model
from tinylm.model.recompute import Checkpointing
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import TinyLM
from tinylm.train.trainer import accumulate_gradients
from tinylm.vocab.batches import Batch, TrainBatches
from tinylm.vocab.token_store import TokenStore, load_matrix

SEED = 1
PRECISION = "fp32"
STEPS = 2  # of which a trial's time is the median
SERIES = {"none": "plain", "blocks": "recompute"}  # as plots name the modes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """What a process needs for one setting; `model.layers` is the depth.

    Vectors and tokens are those of the working directory.
    """

    model: ModelSettings
    recompute: str
    batch_size: int
    pad_id: int
    runtime: RuntimeSettings
    only_times: bool = False

    @property
    def columns(self) -> dict[str, Any]:
        """The setting's name and conditions, for its row of results."""
        layers = self.model.layers
        setting = f"{layers} layers, recompute {self.recompute}"
        return {"setting": setting, "layers": layers, "recompute": self.recompute}


def make_tasks(settings: CkptBenchSettings, model: ModelSettings, **shared: Any) -> list[Task]:
    """Each depth with each recomputation mode, in turn; `shared` are the other fields of Task."""
    tasks = []
    for layers in settings.depths:
        deep = dataclasses.replace(model, layers=layers)
        for mode in SERIES:
            task = Task(model=deep, recompute=mode, batch_size=settings.batch_size, **shared)
            tasks.append(task)
    return tasks


def exact_values(nats: float, model: TinyLM) -> dict[str, str]:
    """The bits of the loss, and SHA-256 of the bytes of each parameter's gradient, by name."""
    values = {"the loss": nats.hex()}
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            gradient = parameter.grad.cpu().contiguous().numpy()
            values[f"the gradient of {name}"] = hashlib.sha256(gradient.tobytes()).hexdigest()
    return values


def measure_task(task: Task) -> dict[str, Any]:
    """Forward and backward pass of one batch of full windows: exact values, seconds and memory.

    The optimizer is left out: it is the same in all modes.
    """
    device = pick_device(task.runtime.device)
    seed_everything(derive_seed(SEED, "ckpt_bench"), task.runtime.threads)
    ops = training_ops(PRECISION, device, device.type == "cuda")
    matrix = torch.from_numpy(load_matrix(paths.EMBEDDING))
    model = new_model(task.model, matrix, ops, Checkpointing(task.recompute)).to(device).train()
    store = TokenStore(paths.TOKENS, "train")
    batches = TrainBatches(store, "stream", task.batch_size, task.model.context, task.pad_id, SEED)
    batch = batches.batch(0)

    def step(batch: Batch = batch) -> float:
        model.zero_grad(set_to_none=True)
        return float(accumulate_gradients(model, [batch], PRECISION))

    nats = step()  # the warm-up; right after the seed, so dropout draws the same in all modes
    exact = {} if task.only_times else exact_values(nats, model)
    seconds = measure.median_seconds(step, repeats=STEPS, device=device, warm_up=0)
    speed = batch.tokens / seconds
    times = {"step_s": seconds, "epoch_s": batches.tokens_per_epoch / speed, "tokens_per_s": speed}
    if task.only_times:
        return times
    row = Batch(batch.inputs[:1], batch.targets[:1], task.model.context)
    model.zero_grad(set_to_none=True)
    peak = measure.peak_mib(step, device, before=lambda: step(row))
    return {"exact": exact, **times, "peak_mib": peak}


BENCH = measure.Bench(
    measure_task,
    conditions=("layers", "recompute"),
    times=("step_s", "epoch_s", "tokens_per_s"),
    memory=("peak_mib",),
)


def compare(results: Sequence[dict[str, Any]]) -> list[int]:
    """Depths whose loss and gradients are bit-identical with every recomputation mode that was measured.

    Raises CommandFailed naming the depth, the mode and the first value that differs. Depths without a comparison
    are left out.
    """
    plain = {row["layers"]: row["exact"] for row in results if row["recompute"] == "none"}
    depths = []
    for row in results:
        layers = row["layers"]
        if row["recompute"] == "none" or layers not in plain:
            continue
        values = plain[layers] | row["exact"]
        changed = [name for name in values if plain[layers].get(name) != row["exact"].get(name)]
        if changed:
            raise CommandFailed(
                f"ckpt_bench: {layers} layers: recompute {row['recompute']} changes {changed[0]} "
                f"(and {len(changed) - 1} more of {len(values)} values)"
            )
        depths.append(layers)
    return list(dict.fromkeys(depths))
