"""Stage download: write the stories of each split to data/stories."""

import sys
import time
from pathlib import Path

from tinylm.command import guard, stage_time
from tinylm.config import read_section
from tinylm.files import write_json
from tinylm.runtime import RuntimeSettings, conditions
from tinylm.sections import stage_params
from tinylm.text.corpus import DataSettings, write_stories
from tinylm.workers import cores


def main() -> None:
    start = time.perf_counter()
    params = stage_params(vectors=True)  # of a width that no later stage could use
    settings = read_section(params, "data", DataSettings)
    runtime = read_section(params, "runtime", RuntimeSettings)
    metrics = write_stories(settings, Path("data/stories"), runtime.workers or cores(), runtime.log_every_s)
    write_json("metrics/download.json", metrics)
    stage_time("download", start, conditions(None, runtime.threads))
    for split, figures in metrics["splits"].items():
        print(f"{split}: {figures['stories']:,} stories, {figures['words']:,} words")


if __name__ == "__main__":
    sys.exit(guard(main))
