"""Stage accum_run: one training run of the accumulation sweep, `python -m stages.accum_run 4`."""

import sys

from tinylm.base import paths
from tinylm.base.files import write_json
from tinylm.bench import accum, measure
from tinylm.bench.measure import AccumSettings
from tinylm.host.command import CommandFailed, guard
from tinylm.host.params import stage_params
from tinylm.host.stage import Stage, number_argument
from tinylm.model.settings import ModelSettings
from tinylm.train.settings import TrainSettings


def main() -> None:
    stage = Stage("accum_run", stage_params())
    measure.start_server(accum.__name__)
    sweep = stage.settings("accum_sweep", AccumSettings)
    accumulation = number_argument("accum_run", "one of accum_sweep.settings", sweep.settings)
    model = stage.settings("model", ModelSettings)
    train = stage.settings("train", TrainSettings)
    stage.begin(train.seed)
    task = accum.make_task(accumulation, sweep, model, train, stage.runtime)

    result = measure.in_own_process(accum.measure_run, task)
    # a sweep may record a lack of memory, but no other failure
    if result.get("error") not in (None, measure.OOM):
        raise CommandFailed(f"accumulation {accumulation}: {result['error']}")
    if "error" in result:
        print(f"accumulation {accumulation}: not measured: {result['error']}", file=sys.stderr)
    else:
        print(
            f"accumulation {accumulation}: held-out loss {result['held_out'][-1][3]:.4f} after "
            f"{result['updates']} updates"
        )
    names = {"setting": f"accumulation {accumulation}", "accumulation": accumulation}
    write_json(paths.accum_run(accumulation), {**names, **result}, sealed=True)


if __name__ == "__main__":
    sys.exit(guard(main))
