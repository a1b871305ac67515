"""Stage accum_run: one training run of the accumulation sweep, `python -m stages.accum_run 4`."""

import sys

from tinylm.base import paths
from tinylm.base.config import PARAMS_FILE, InputError, read_section
from tinylm.base.files import write_json
from tinylm.base.machine import pick_device
from tinylm.base.seeding import seed_everything
from tinylm.bench import accum, measure
from tinylm.bench.measure import AccumSettings
from tinylm.host.command import CommandFailed, guard
from tinylm.host.runtime import RuntimeSettings, conditions, in_words
from tinylm.host.times import write_times
from tinylm.model.settings import ModelSettings
from tinylm.presets.sections import stage_params
from tinylm.train.settings import TrainSettings


def chosen(arguments: list[str], settings: tuple[int, ...]) -> int:
    """The one argument, if it is one of accum_sweep.settings. Raises InputError."""
    if len(arguments) != 1 or arguments[0] not in map(str, settings):
        given = " ".join(arguments) or "nothing"
        raise InputError(
            f"stages.accum_run: argument {given}; allowed: one of {list(settings)}, {PARAMS_FILE}: accum_sweep.settings"
        )
    return int(arguments[0])


def main() -> None:
    measure.start_server(accum.__name__)
    params = stage_params()
    sweep = read_section(params, "accum_sweep", AccumSettings)
    accumulation = chosen(sys.argv[1:], sweep.settings)
    model = read_section(params, "model", ModelSettings)
    train = read_section(params, "train", TrainSettings)
    runtime = read_section(params, "runtime", RuntimeSettings)
    measured_on = conditions(pick_device(runtime.device), runtime.threads)
    task = accum.make_task(accumulation, sweep, model, train, runtime)
    seed_everything(train.seed, runtime.threads)
    print(f"conditions: {in_words(measured_on)}", flush=True)

    result = measure.in_own_process(accum.measure_run, task)
    if result.get("error") not in (
        None,
        measure.OOM,
    ):  # a sweep may record a lack of memory, no other failure
        raise CommandFailed(f"accumulation {accumulation}: {result['error']}")
    if "error" in result:
        print(f"accumulation {accumulation}: not measured: {result['error']}", file=sys.stderr)
    else:
        print(
            f"accumulation {accumulation}: held-out loss {result['held_out'][-1][3]:.4f} after "
            f"{result['updates']} updates, peak {result['peak_mib'] or 0:.1f} MiB"
        )
    timed = {name: result.pop(name) for name in accum.TIMED if name in result} | {
        "conditions": measured_on
    }
    known = {"setting": f"accumulation {accumulation}", "accumulation": accumulation}
    write_json(paths.accum_run(accumulation), {**known, **result}, sealed=True)
    write_times(f"accum_run_{accumulation}", "accum_run", paths.accum_run(accumulation), timed)


if __name__ == "__main__":
    sys.exit(guard(main))
