"""Gradient checkpointing: two identical training runs, one of which recomputes the blocks."""

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tinylm.base.command import CommandFailed
from tinylm.bench import measure
from tinylm.bench.measure import CkptBenchSettings
from tinylm.bench.operations import labelled, shares
from tinylm.bench.training import Task, fresh, short, train_task
from tinylm.train.settings import TrainSettings
from tinylm.train.trainer import Trainer

MODES = {False: "none", True: "blocks"}  # of train.recompute

BENCH = measure.Bench(
    train_task,
    conditions=("recompute",),
    times=("tokens_per_s", "update_s", "epoch_s"),
    memory=("peak_mib",),
)


def make_tasks(settings: CkptBenchSettings, train: TrainSettings, **shared: Any) -> list[Task]:
    """The runs without and with recomputation; `shared` are the other fields of Task.

    They are in fp32 and not compiled, so that equal formulas give equal bits.
    """
    tasks = []
    for recomputes, mode in MODES.items():
        chosen = short(
            train,
            recompute=mode,
            accumulation=1,
            batch_size=settings.batch_size,
            validate_every=settings.updates,
            precision="fp32",
            compile="false",
        )
        columns = {"setting": f"recompute {mode}", "recompute": recomputes}
        tasks.append(Task(columns=columns, mini_batches=settings.updates, train=chosen, **shared))
    return tasks


def profile_task(task: Task) -> dict[str, Any]:
    """The shares of each kind of operation in updates of stage train, but not compiled."""
    settings = short(task.train, compile="false")
    run = fresh(dataclasses.replace(task, train=settings, mini_batches=settings.accumulation))
    trainer = Trainer(run.model, run.batches, run.settings)
    model = trainer.model
    model.ops = copy.copy(model.ops)  # the model's own, which calls the loss alone
    model.ops.output_loss = labelled("loss", model.ops.output_loss)  # type: ignore[method-assign]
    for optimizer, _ in trainer.optimizers:
        optimizer.step = labelled("optimizer", optimizer.step)  # type: ignore[method-assign]
    batches = trainer.batches_of(0)
    return {"shares": shares(model, lambda: trainer.update(batches))}


def compare(results: Sequence[Mapping[str, Any]]) -> dict[str, bool]:
    """Whether recomputation leaves every loss and the final weights as they are, to the last bit.

    Empty if one of the two was not measured. Raises CommandFailed at the first difference.
    """
    if len(results) < len(MODES):
        return {}
    plain, recomputed = results
    for (update, _, nats), (_, _, other) in zip(plain["curve"], recomputed["curve"], strict=True):
        if nats != other:
            raise CommandFailed(
                f"ckpt_bench: recomputation changes the loss of update {update}: {nats} to {other}"
            )
    if plain["weights"] != recomputed["weights"]:
        raise CommandFailed("ckpt_bench: recomputation changes the final weights")
    return {"same_losses": True, "same_weights": True}
