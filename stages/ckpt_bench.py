"""Stage ckpt_bench: gradient checkpointing; memory and time of two equal short runs."""

import sys
from dataclasses import replace

from tinylm.base import paths
from tinylm.base.command import run_command
from tinylm.base.files import write_csv
from tinylm.bench import ckpt, measure
from tinylm.params.stage import Stage
from tinylm.run.benches import Recomputed, RecomputeTimes
from tinylm.run.result_files import from_mapping
from tinylm.vocab.open_tokenizer import open_tokenizer


def main() -> None:
    stage = Stage("ckpt_bench")
    params = stage.params
    stage.begin(params.train.seed)
    pad_id = open_tokenizer(paths.TOKENIZER).pad_id
    tasks = ckpt.make_tasks(
        params.ckpt_bench, params.train, model=params.model, pad_id=pad_id, runtime=params.runtime
    )
    measured, failed = measure.run_trials(ckpt.BENCH, tasks)
    results = ckpt.compare(measured)
    rows = ckpt.BENCH.rows(measured)
    shown = {"on" if row["recompute"] else "off": row for row in rows}
    plotted = [(name, "peak memory", row["peak_mib"]) for name, row in shown.items()]
    write_csv(paths.plot("ckpt_bench"), ("recompute", "series", "value"), plotted)
    profile = measure.in_own_process(ckpt.profile_task, replace(tasks[0], train=params.train))
    times = {"settings": rows, "profile": profile, "not_measured": failed, "trials": measure.TRIALS}
    metrics = measure.shown("ckpt", shown, "epoch_s", "peak_mib")
    stage.write(from_mapping(Recomputed, results), metrics, from_mapping(RecomputeTimes, times))


if __name__ == "__main__":
    sys.exit(run_command(main))
