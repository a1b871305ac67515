"""Stage train: fit the model to the train split; write weights and curves."""

import math
import sys

from tinylm.base import paths
from tinylm.base.files import sha256
from tinylm.host.command import guard
from tinylm.host.tables import print_description
from tinylm.model.checkpoint import save_model
from tinylm.model.describe import describe, summary
from tinylm.params.stage import Stage
from tinylm.train.curves import TrainResult, run_metrics, write_curves
from tinylm.train.distributed import Group, in_ranks
from tinylm.train.loop import train
from tinylm.train.preparation import Run, prepare
from tinylm.train.settings import TrainSettings


def main() -> None:
    stage = Stage("train")
    settings = stage.params.train
    in_ranks(settings.processes, ["-m", "stages.train"], lambda group: fit(stage, settings, group))


def fit(stage: Stage, settings: TrainSettings, group: Group) -> None:
    """Train in one process of the run; rank 0 writes all files."""
    params = stage.params
    run = prepare("train", params.model, settings, params.runtime, group, paths.TRAIN_RUN)
    stage.conditions = run.conditions
    print_description(describe(run.model))
    with group.lock(paths.TRAIN_RUN):
        result = train(
            run.model,
            run.batches,
            run.held_out,
            run.settings,
            sample_every=stage.params.runtime.sample_every,
            on_sample=run.print_sample,
            snapshots=run.snapshots,
            group=group,
        )
        if group.is_rank0:
            write(stage, run, result)


def write(stage: Stage, run: Run, result: TrainResult) -> None:
    """Weights, checkpoints, metrics and curves; then remove the snapshots."""
    tokenizer_sha256 = sha256(paths.TOKENIZER)
    layout = run.settings.layout
    save_model(paths.MODELS, run.model, layout=layout, tokenizer_sha256=tokenizer_sha256)
    run.snapshots.copy_checkpoints(paths.MODELS)
    write_curves(paths.PLOTS, result.curves)
    metrics = {key: getattr(run.settings, key) for key in ("seed", "precision", "compile")}
    metrics |= summary(run.model, run.settings.optimizer)
    metrics |= run_metrics(result, run.batches)
    times = result.timing()
    times["epoch_s"] = round(run.batches.tokens_per_epoch / times["tokens_per_s"], 2)
    shown = {"val_loss": math.log(metrics["held_out_perplexity"]), "epoch_s": times["epoch_s"]}
    stage.write(metrics, {"train": shown}, times)
    run.snapshots.finish()  # last: after an edit, `stage.write` raises and the finished run stays


if __name__ == "__main__":
    sys.exit(guard(main))
