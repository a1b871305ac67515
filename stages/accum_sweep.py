"""Stage accum_sweep: merge the runs of the sweep into one table and three graphs; time its settings."""

import sys

from tinylm.base import paths
from tinylm.base.files import keep_only, read_json, write_csv
from tinylm.bench import accum, measure
from tinylm.bench.measure import AccumSettings
from tinylm.host.command import guard
from tinylm.host.params import stage_params
from tinylm.host.stage import Stage
from tinylm.model.settings import ModelSettings
from tinylm.train.settings import TrainSettings


def main() -> None:
    stage = Stage("accum_sweep", stage_params())
    measure.start_server(accum.__name__)
    settings = stage.settings("accum_sweep", AccumSettings)
    model = stage.settings("model", ModelSettings)
    train = stage.settings("train", TrainSettings)
    stage.begin(train.seed)
    keep_only(paths.ACCUM, set(map(str, settings.settings)))
    runs = [
        read_json(paths.accum_run(number), f"accum_run@{number}")
        for number in sorted(settings.settings)
    ]
    measured, failed = measure.split_failures("accum_sweep", runs)
    by_number = {run["accumulation"]: run for run in measured}
    merged = accum.merge(by_number)
    results = accum.run(
        [accum.make_task(number, settings, model, train, stage.runtime) for number in by_number]
    )
    timed, not_timed = measure.split_failures("accum_sweep", results)
    for axis, rows in accum.curves(by_number).items():
        write_csv(paths.plot(f"accum_{axis.removesuffix('s')}s"), (axis, "series", "value"), rows)
    costs, missing = accum.costs(timed)
    times = {
        "settings": costs,
        "not_measured": failed + not_timed + missing,
    }
    shown = {f"accum/{number}": costs.get(number, {}) for number in settings.settings}
    stage.write(merged, measure.shown(shown, "epoch_s", "peak_mib"), times)
    for number, row in merged["settings"].items():
        print(f"accumulation {number}: held-out loss {row['held_out_loss_at_equal_tokens']:.3f}")


if __name__ == "__main__":
    sys.exit(guard(main))
