"""Gradient checkpointing: two identical training runs, one of which recomputes the blocks."""

from collections.abc import Mapping, Sequence
from typing import Any

from tinylm.bench import measure
from tinylm.bench.measure import CkptBenchSettings
from tinylm.bench.training import Task, short, train_task
from tinylm.host.command import CommandFailed
from tinylm.train.settings import TrainSettings

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
