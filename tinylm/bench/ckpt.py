"""Gradient checkpointing: two identical training runs, one of which recomputes the blocks."""

import copy
import dataclasses
from collections.abc import Sequence

from tinylm.base.command import CommandFailed
from tinylm.base.runtime import RuntimeSettings
from tinylm.bench import training, trials
from tinylm.bench.operations import as_profile, labelled, shares
from tinylm.bench.settings import CkptBenchSettings
from tinylm.bench.training import (
    TrainingMeasurement,
    TrainingTask,
    new_training_run,
    short_run,
)
from tinylm.bench.trials import Failure, Trials, six_digits
from tinylm.model.settings import ModelSettings
from tinylm.run.benches import NotMeasured, Recomputed, RecomputeSpeed, RecomputeTimes
from tinylm.train.settings import TrainSettings
from tinylm.train.trainer import Trainer

MODES = ("none", "blocks")  # of train.recompute
PLOT_COLUMNS = ("recompute", "series", "value")


@dataclasses.dataclass(frozen=True, kw_only=True)
class CkptResult:
    """The results of the bench.

    is_compared: whether both runs were measured. They are then bitwise equal, or the bench fails.
    profile: the share of each kind of operation in an update of stage train.
    """

    runs: Sequence[Trials[TrainingTask, TrainingMeasurement]]
    not_measured: Sequence[NotMeasured]
    is_compared: bool
    profile: dict[str, float] | Failure


def make_tasks(
    settings: CkptBenchSettings,
    model: ModelSettings,
    train: TrainSettings,
    pad_id: int,
    runtime: RuntimeSettings,
) -> list[TrainingTask]:
    """The runs without and with recomputation.

    They are in fp32 and not compiled, so that equal formulas give equal bits.
    """
    tasks = []
    for mode in MODES:
        chosen = short_run(
            train,
            recompute=mode,
            accumulation=1,
            batch_size=settings.batch_size,
            validate_every=settings.updates,
            precision="fp32",
            compile="false",
        )
        task = TrainingTask(
            name=f"recompute {mode}",
            mini_batches=settings.updates,
            model=model,
            train=chosen,
            pad_id=pad_id,
            runtime=runtime,
        )
        tasks.append(task)
    return tasks


def run_bench(tasks: Sequence[TrainingTask], train: TrainSettings) -> CkptResult:
    """Measure both runs and compare them; train: section `train`, for the profile.

    Raises CommandFailed if recomputation changes a loss or a weight.
    """
    runs, not_measured = trials.run_trials(tasks, training.measure, training.measure_times)
    is_compared = len(runs) == len(MODES)
    if is_compared:
        plain, recomputed = runs
        check_same(plain.first, recomputed.first)
    of_stage_train = dataclasses.replace(tasks[0], train=train)
    return CkptResult(
        runs=runs,
        not_measured=not_measured,
        is_compared=is_compared,
        profile=trials.in_own_process(profile_update, of_stage_train),
    )


def profile_update(task: TrainingTask) -> dict[str, float]:
    """The shares of each kind of operation in updates of stage train, but not compiled."""
    settings = short_run(task.train, compile="false")
    task = dataclasses.replace(task, train=settings, mini_batches=settings.accumulation)
    run = new_training_run(task)
    trainer = Trainer(run.model, run.batches, run.settings)
    model = trainer.model
    model.ops = copy.copy(model.ops)  # the model's own, which calls the loss alone
    model.ops.output_loss = labelled("loss", model.ops.output_loss)  # type: ignore[method-assign]
    for optimizer, _ in trainer.optimizers:
        optimizer.step = labelled("optimizer", optimizer.step)  # type: ignore[method-assign]
    batches = trainer.batches_of(0)
    return shares(model, lambda: trainer.update(batches))


def check_same(plain: TrainingMeasurement, recomputed: TrainingMeasurement) -> None:
    """Raise CommandFailed if recomputation changes a loss or the final weights in the last bit."""
    for (update, _, nats), (_, _, other) in zip(plain.curve, recomputed.curve, strict=True):
        if nats != other:
            raise CommandFailed(
                f"ckpt_bench: recomputation changes the loss of update {update}: {nats} to {other}"
            )
    if plain.weights != recomputed.weights:
        raise CommandFailed("ckpt_bench: recomputation changes the final weights")


def plotted_memory(result: CkptResult) -> list[tuple[str, str, float]]:
    """plots/ckpt_bench.csv: (recompute, series, peak MiB)."""
    return [
        (_on_or_off(run.task), "peak memory", six_digits(run.first.peak_mib)) for run in result.runs
    ]


def results_of(result: CkptResult) -> Recomputed:
    """The results that stage ckpt_bench writes. A difference would have failed the bench."""
    same = True if result.is_compared else None
    return Recomputed(same_losses=same, same_weights=same)


def times_of(result: CkptResult) -> RecomputeTimes:
    """The times that stage ckpt_bench writes."""
    speeds = []
    for run in result.runs:
        speed = RecomputeSpeed(
            recompute=_recomputes(run.task),
            **run.times_row(),
            peak_mib=six_digits(run.first.peak_mib),
        )
        speeds.append(speed)
    return RecomputeTimes(
        settings=speeds,
        profile=as_profile(result.profile),
        not_measured=list(result.not_measured),
        trials=trials.TRIALS,
    )


def metrics_of(times: RecomputeTimes) -> dict[str, dict[str, float | None]]:
    """The metrics in rows ckpt/off and ckpt/on, as far as they were measured."""
    metrics = {}
    for speed in times.settings:
        name = "on" if speed.recompute else "off"
        metrics[f"ckpt/{name}"] = {"epoch_s": speed.epoch_s, "peak_mib": speed.peak_mib}
    return metrics


def _recomputes(task: TrainingTask) -> bool:
    return task.train.recompute == "blocks"


def _on_or_off(task: TrainingTask) -> str:
    return "on" if _recomputes(task) else "off"
