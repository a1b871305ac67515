"""Stage accum_sweep: merge the runs of the accumulation sweep into one table and three graphs."""

import sys
import time

from tinylm.base import paths
from tinylm.base.config import read_section
from tinylm.base.files import keep_only, read_json, write_json
from tinylm.bench import measure, sweep
from tinylm.bench.measure import AccumSettings
from tinylm.host.command import guard, stage_time
from tinylm.presets.sections import stage_params


def main() -> None:
    start = time.perf_counter()
    settings = read_section(stage_params(), "accum_sweep", AccumSettings)
    keep_only(paths.ACCUM, set(map(str, settings.settings)))
    runs = [read_json(paths.accum_run(number), f"accum_run@{number}") for number in sorted(settings.settings)]
    measured, failed = measure.split_failures("accum_sweep", runs)
    by_number = {run["accumulation"]: run for run in measured}
    merged = sweep.merge(by_number)
    write_json(paths.metrics("accum_sweep"), merged)
    for axis, rows in sweep.curves(by_number).items():
        measure.write_csv(paths.plot(f"accum_{axis.removesuffix('s')}s"), (axis, "series", "value"), rows)
    costs, missing = sweep.costs(by_number)
    known = {"settings": costs, "not_measured": failed + missing, "measured": sweep.MEASURED}
    stage_time("accum_sweep", start, measured[0]["conditions"], **known)
    for answer in merged["answers"]:
        print(answer)


if __name__ == "__main__":
    sys.exit(guard(main))
