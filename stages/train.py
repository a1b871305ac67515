"""Stage train: fit the model to the train split; write weights and curves."""

import sys

from tinylm.base import paths
from tinylm.base.command import run_command
from tinylm.base.files import sha256
from tinylm.base.tables import print_description
from tinylm.model.checkpoint import save_model
from tinylm.model.describe import describe, summary
from tinylm.params.stage import Stage
from tinylm.run.result_files import from_mapping
from tinylm.run.trained import Trained, TrainTimes
from tinylm.train.curves import TrainResult, run_metrics, write_curves
from tinylm.train.distributed import is_rank, joined_group, start_ranks
from tinylm.train.loop import train
from tinylm.train.preparation import TrainingRun, prepare, with_snapshots
from tinylm.train.samples import SamplePrinter
from tinylm.vocab.open_tokenizer import open_tokenizer


def main() -> None:
    stage = Stage("train")
    model = stage.params.model
    settings = stage.params.train
    runtime = stage.params.runtime
    if settings.processes > 1 and not is_rank():
        start_ranks(settings.processes, ["-m", "stages.train"])  # runs this script once per rank
        return
    with joined_group() as group, group.lock(paths.TRAIN_RUN):
        tokenizer = open_tokenizer(paths.TOKENIZER)
        run = prepare(model, settings, runtime, tokenizer, group)
        run = with_snapshots(run, stage.name, paths.TRAIN_RUN, runtime.snapshot_every_s)
        print_description(describe(run.model))
        sampler = SamplePrinter(run.model, tokenizer, runtime.sample_prompt, settings.seed)
        result = train(run, sample_every=runtime.sample_every, on_sample=sampler)
        if group.is_rank0:
            write(stage, run, result)


def write(stage: Stage, run: TrainingRun, result: TrainResult) -> None:
    """Write weights, checkpoints, metrics and curves; then remove the snapshots."""
    assert run.snapshots is not None  # `with_snapshots` opened them
    settings = run.settings
    tokenizer_sha256 = sha256(paths.TOKENIZER)
    save_model(paths.MODELS, run.model, layout=settings.layout, tokenizer_sha256=tokenizer_sha256)
    run.snapshots.copy_checkpoints(paths.MODELS)
    write_curves(paths.PLOTS, result.curves)
    metrics = {key: getattr(settings, key) for key in ("seed", "precision", "compile")}
    metrics |= summary(run.model, settings.optimizer)
    metrics |= run_metrics(result, run.batches)
    trained = from_mapping(Trained, metrics)
    timing = result.timing()
    epoch_s = round(run.batches.tokens_per_epoch / timing["tokens_per_s"], 2)
    stage.conditions = dict(run.conditions)
    times = TrainTimes(
        train_s=timing["train_s"], tokens_per_s=timing["tokens_per_s"], epoch_s=epoch_s
    )
    shown = {"val_loss": trained.held_out_loss, "epoch_s": epoch_s}
    stage.snapshots = paths.TRAIN_RUN
    stage.write(trained, {"train": shown}, times)
    run.snapshots.finish()  # last: they stay if `stage.write` raises after an edit


if __name__ == "__main__":
    sys.exit(run_command(main))
