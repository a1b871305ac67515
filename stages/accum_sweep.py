"""Stage accum_sweep: train with each number of mini-batches per update; time each of them."""

import dataclasses
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
    model = stage.params.model
    if settings.context:
        model = dataclasses.replace(model, context=min(settings.context, model.context))
    train = stage.params.train
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
    timed, not_timed = measure.run_trials(accum.BENCH, trained, accum.TRIALS)
    for axis, rows in accum.curves(by_number).items():
        write_csv(paths.plot(f"accum_{axis.removesuffix('s')}s"), (axis, "series", "value"), rows)
    costs = {row.pop("accumulation"): row for row in accum.BENCH.rows(timed)}
    times = {"settings": costs, "not_measured": failed + not_timed}
    shown = {number: costs.get(number, {}) for number in settings.settings}
    stage.write(accum.merge(by_number), measure.shown("accum", shown, "epoch_s", "peak_mib"), times)


if __name__ == "__main__":
    sys.exit(guard(main))
