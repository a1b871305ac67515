"""Stage download: write the stories of each split to data/stories."""

import sys
import time
from pathlib import Path

from tinylm.base import paths
from tinylm.base.config import read_section
from tinylm.base.results import write_results
from tinylm.download.splits import DataSettings, write_stories
from tinylm.host.command import guard
from tinylm.host.params import stage_params
from tinylm.host.runtime import RuntimeSettings, conditions
from tinylm.host.times import stage_time
from tinylm.host.workers import cores


def main() -> None:
    start = time.perf_counter()
    params = stage_params(
        vectors=True
    )  # refuses a vector file of the wrong width now, not in a later stage
    settings = read_section(params, "data", DataSettings)
    runtime = read_section(params, "runtime", RuntimeSettings)
    metrics = write_stories(
        settings, Path(paths.STORIES), runtime.workers or cores(), runtime.log_every_s
    )
    write_results("download", metrics, words=metrics["splits"]["train"]["words"])
    stage_time("download", start, conditions(None, runtime.threads))
    for split, figures in metrics["splits"].items():
        print(f"{split}: {figures['stories']:,} stories, {figures['words']:,} words")


if __name__ == "__main__":
    sys.exit(guard(main))
