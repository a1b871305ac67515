"""Stage accum_sweep: one short training run for each number of mini-batches per update."""

import sys

from tinylm.base import paths
from tinylm.base.command import run_command
from tinylm.base.files import write_csv
from tinylm.bench import accum, measure
from tinylm.params.stage import Stage
from tinylm.run.benches import Accumulated, AccumulationTimes
from tinylm.run.result_files import from_mapping
from tinylm.vocab.open_tokenizer import open_tokenizer

PLOTS = {  # horizontal axis: the plot's file
    "micro_step": "accum_micro_steps",
    "update": "accum_updates",
    "tokens": "accum_tokens",
}


def main() -> None:
    stage = Stage("accum_sweep")
    params = stage.params
    stage.begin(params.train.seed)
    tokenizer = open_tokenizer(paths.TOKENIZER)
    sweep = params.accum_sweep
    tasks = accum.make_tasks(sweep, params.model, params.train, tokenizer, params.runtime)
    runs, failed = measure.split_failures(accum.train_all(tasks))
    by_number = {run["accumulation"]: run for run in runs}
    for axis, rows in accum.curves(by_number).items():
        write_csv(paths.plot(PLOTS[axis]), (axis, "series", "value"), rows)
    costs = {number: {key: run[key] for key in accum.COSTS} for number, run in by_number.items()}
    shown = {number: costs.get(number, {}) for number in sweep.settings}
    results = accum.merge(by_number) | {"row_tokens": tasks[0].model.context}
    for number, run in by_number.items():
        results["settings"][number]["bleu"] = accum.mean_bleu(run, tokenizer)
    check = measure.in_own_process(accum.gradient_difference, tasks[0])
    results["gradient_difference"] = check.get("gradient_difference")
    times = {"settings": costs, "not_measured": failed}
    metrics = measure.shown("accum", shown, "epoch_s", "peak_mib")
    stage.write(from_mapping(Accumulated, results), metrics, from_mapping(AccumulationTimes, times))


if __name__ == "__main__":
    sys.exit(run_command(main))
