"""Stage ckpt_bench: gradient checkpointing; memory and time against depth, bit-identical gradients."""

import sys

from tinylm.base import paths
from tinylm.base.files import write_csv
from tinylm.bench import ckpt, measure
from tinylm.host.command import guard
from tinylm.params.stage import Stage
from tinylm.vocab.kinds import open_tokenizer


def main() -> None:
    stage = Stage("ckpt_bench")
    settings = stage.params.ckpt_bench
    model = stage.params.model
    stage.begin(ckpt.SEED)
    pad_id = open_tokenizer(paths.TOKENIZER).pad_id
    tasks = ckpt.make_tasks(settings, model, pad_id=pad_id, runtime=stage.params.runtime)
    measured, failed = measure.run_trials(ckpt.BENCH, tasks)
    depths = ckpt.compare(measured)
    rows = ckpt.BENCH.rows(measured)
    # None if there was no pair to compare; a difference fails the stage
    same = True if depths else None
    results = {"same_loss": same, "same_gradients": same, "depths": depths}
    plotted = [(row["layers"], ckpt.SERIES[row["recompute"]], row["peak_mib"]) for row in rows]
    write_csv(paths.plot("ckpt_bench"), ("layers", "series", "value"), plotted)
    pairs = [row | {"recompute": row["recompute"] == "blocks"} for row in rows]
    times = {
        "settings": pairs,
        "not_measured": failed,
        "trials": measure.TRIALS,
    }
    deepest = measure.off_and_on(pairs, "layers", "recompute")
    stage.write(results, measure.shown("ckpt", deepest, "epoch_s", "peak_mib"), times)


if __name__ == "__main__":
    sys.exit(guard(main))
