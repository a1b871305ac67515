"""Stage seed_train: stage train with another seed, `python -m stages.seed_train 2`."""

import dataclasses
import sys

from tinylm.base import paths
from tinylm.base.files import sha256, write_json
from tinylm.host.command import guard
from tinylm.model.checkpoint import save_model
from tinylm.params.stage import Stage, seed_argument
from tinylm.train.curves import run_metrics
from tinylm.train.distributed import Group, in_ranks
from tinylm.train.loop import train
from tinylm.train.preparation import prepare
from tinylm.train.settings import TrainSettings


def main() -> None:
    stage = Stage("seed_train")
    seed = seed_argument("seed_train")
    settings = stage.params.train
    settings = dataclasses.replace(settings, seed=seed, keep_epochs=())
    command = ["-m", "stages.seed_train", str(seed)]
    in_ranks(settings.processes, command, lambda group: fit(stage, settings, group))


def fit(stage: Stage, settings: TrainSettings, group: Group) -> None:
    """What each process of the run does; rank 0 writes all files."""
    seed = settings.seed
    folder = paths.seed_run(seed)
    snapshots = f"{paths.RUNS}/seeds/{seed}"
    params = stage.params
    run = prepare("seed_train", params.model, settings, params.runtime, group, snapshots)
    with group.lock(str(run.snapshots.folder)):
        result = train(
            run.model,
            run.batches,
            run.held_out,
            run.settings,
            snapshots=run.snapshots,
            group=group,
        )
        if not group.is_rank0:
            return
        tokenizer_sha256 = sha256(paths.TOKENIZER)
        layout = run.settings.layout
        save_model(folder, run.model, layout=layout, tokenizer_sha256=tokenizer_sha256)
        metrics = run_metrics(result, run.batches)
        write_json(f"{folder}/run.json", {"figures": metrics, "held_out": result.curves.held_out})
        stage.refuse_edits()
        run.snapshots.finish()  # last: after an edit the finished run stays
    print(
        f"seed {seed}: held-out perplexity {metrics['held_out_perplexity']:.3f} after "
        f"{metrics['tokens']:,} tokens"
    )


if __name__ == "__main__":
    sys.exit(guard(main))
