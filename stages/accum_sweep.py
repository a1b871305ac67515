"""Stage accum_sweep: train with each number of mini-batches per update; time each of them."""

import sys

from tinylm.base import paths
from tinylm.base.files import write_csv
from tinylm.bench import accum, measure
from tinylm.host.command import guard
from tinylm.params.stage import Stage
from tinylm.vocab.kinds import open_tokenizer


def main() -> None:
    stage = Stage("accum_sweep")
    settings = stage.params.accum_sweep
    train = stage.params.train
    model = accum.shortened(stage.params.model, train.layout)
    stage.begin(train.seed)
    pad_id = open_tokenizer(paths.TOKENIZER).pad_id
    tasks = []
    for number in sorted(settings.settings):
        task = accum.Task(
            accumulation=number,
            sweep=settings,
            model=model,
            train=train,
            runtime=stage.params.runtime,
            pad_id=pad_id,
        )
        tasks.append(task)
    runs, failed = measure.split_failures(accum.train_all(tasks))
    by_number = {run["accumulation"]: run for run in runs}
    trained = [task for task in tasks if task.accumulation in by_number]
    timed, not_timed = measure.run_trials(accum.BENCH, trained)
    for axis, rows in accum.curves(by_number).items():
        write_csv(paths.plot(f"accum_{axis.removesuffix('s')}s"), (axis, "series", "value"), rows)
    costs = {row.pop("accumulation"): row for row in accum.BENCH.rows(timed)}
    times = {"settings": costs, "not_measured": failed + not_timed, "trials": measure.TRIALS}
    shown = {number: costs.get(number, {}) for number in settings.settings}
    results = accum.merge(by_number) | {"row_tokens": model.context}
    stage.write(results, measure.shown("accum", shown, "epoch_s", "peak_mib"), times)


if __name__ == "__main__":
    sys.exit(guard(main))
