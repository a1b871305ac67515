"""Stage seed_train: stage train with another seed, `python -m stages.seed_train 2`."""

import dataclasses
import sys

from tinylm.base import paths
from tinylm.base.command import run_command
from tinylm.base.files import sha256, write_json
from tinylm.model.checkpoint import save_model
from tinylm.params.stage import Stage, seed_argument
from tinylm.train.curves import run_metrics
from tinylm.train.distributed import is_rank, joined_group, start_ranks
from tinylm.train.loop import train
from tinylm.train.preparation import prepare, with_snapshots
from tinylm.vocab.open_tokenizer import open_tokenizer


def main() -> None:
    stage = Stage("seed_train")
    seed = seed_argument("seed_train")
    params = stage.params
    settings = dataclasses.replace(params.train, seed=seed, keep_epochs=())
    if settings.processes > 1 and not is_rank():
        start_ranks(settings.processes, ["-m", "stages.seed_train", str(seed)])
        return
    folder = paths.seed_run(seed)
    snapshots = f"{paths.RUNS}/seeds/{seed}"
    with joined_group() as group, group.lock(snapshots):
        tokenizer = open_tokenizer(paths.TOKENIZER)
        run = prepare(params.model, settings, params.runtime, tokenizer, group)
        run = with_snapshots(run, stage.name, snapshots, params.runtime.snapshot_every_s)
        result = train(run)
        if not group.is_rank0:
            return
        tokenizer_sha256 = sha256(paths.TOKENIZER)
        save_model(folder, run.model, layout=settings.layout, tokenizer_sha256=tokenizer_sha256)
        metrics = run_metrics(result, run.batches)
        write_json(f"{folder}/run.json", {"figures": metrics, "held_out": result.curves.held_out})
        stage.snapshots = snapshots
        stage.refuse_edits()
        assert run.snapshots is not None  # `with_snapshots` opened them
        run.snapshots.finish()  # last: after an edit the finished run stays
    print(
        f"seed {seed}: held-out perplexity {metrics['held_out_perplexity']:.3f} after "
        f"{metrics['tokens']:,} tokens"
    )


if __name__ == "__main__":
    sys.exit(run_command(main))
