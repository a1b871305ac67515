"""Stage accum_sweep: merge the runs of the accumulation sweep into one table and three graphs."""

import sys
import time

from tinylm.base import paths
from tinylm.base.config import read_section
from tinylm.base.files import keep_only, read_json, write_csv
from tinylm.base.results import write_results
from tinylm.bench import measure, sweep
from tinylm.bench.measure import AccumSettings
from tinylm.host.command import guard
from tinylm.host.times import read_times, stage_time
from tinylm.presets.sections import stage_params


def main() -> None:
    start = time.perf_counter()
    settings = read_section(stage_params(), "accum_sweep", AccumSettings)
    keep_only(paths.ACCUM, set(map(str, settings.settings)))
    runs = [read_json(paths.accum_run(number), f"accum_run@{number}") for number in sorted(settings.settings)]
    measured, failed = measure.split_failures("accum_sweep", runs)
    by_number = {run["accumulation"]: run for run in measured}
    merged = sweep.merge(by_number)
    lowest = min(row["held_out_loss_at_equal_tokens"] for row in merged["settings"].values())
    write_results("accum_sweep", merged, loss=lowest)
    for axis, rows in sweep.curves(by_number).items():
        write_csv(paths.plot(f"accum_{axis.removesuffix('s')}s"), (axis, "series", "value"), rows)
    timed = {number: read_times(f"accum_run_{number}", "accum_run", paths.accum_run(number)) for number in by_number}
    costs, missing = sweep.costs({number: found or {} for number, found in timed.items()})
    known = {"settings": costs, "not_measured": failed + missing, "measured": sweep.MEASURED}
    measured_on = [found["conditions"] for found in timed.values() if found]
    stage_time("accum_sweep", start, measured_on[0] if measured_on else {}, known)
    for answer in merged["answers"]:
        print(answer)


if __name__ == "__main__":
    sys.exit(guard(main))
