"""Stage train of the default run, compared with its training step: how much of the step's speed is left in the whole stage."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

from benchmarks.contenders.nanogpt import precisions
from benchmarks.contenders.stage import stage_train
from benchmarks.contenders.training import ours
from benchmarks.frame import Entry, Options, Row, compared, prepared, rates, run_command, trials
from benchmarks.shape import STORYBOOK, of_size
from benchmarks.training import UPDATES
from tinylm.base.config import PARAMS_FILE
from tinylm.params.presets.write import BASE, merge, preset_text

Changes = dict[str, dict[str, Any]]  # section -> key -> value
# A run so small that it only shows that the line works.
TINY: Changes = {
    "data": {"train_stories": 60, "evaluation_stories": 5},
    "embedding": {"source": "random", "width": 8},
    "model": {"layers": 1, "heads": 2, "feed_forward": 16},
    "train": {"tokens": 4_000},
    "beam_bench": {"prompts": 1},
    "kv_bench": {"batch": 1},
}


def stage(options: Options) -> list[Row]:
    """Stage train in each precision, and its training step on full windows, measured in turn."""
    shape = dataclasses.asdict(of_size(options.tiny, STORYBOOK))
    updates = 1 if options.tiny else UPDATES
    rows = []
    for precision in precisions():
        step = {"shape": shape, "threads": options.threads, "preset": BASE, "precision": precision}
        entries = {
            "stage": Entry(stage_train, {"folder": str(_prepared_folder(options, precision))}),
            "the step alone": Entry(ours, step),
        }
        with prepared(entries) as running:
            rate = rates(trials(running, options.trials, updates=updates))
        rows += compared(
            f"stage train of the default run in {precision}, beside its step on full windows",
            rate,
            *entries,
        )
    return rows


def _prepared_folder(options: Options, precision: str) -> Path:
    """A new folder in which stages download and vocab of the default run have run."""
    folder = (options.work / "stage" / precision).absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    changes: Changes = {"train": {"precision": precision}, "runtime": {"threads": options.threads}}
    text = preset_text(BASE)
    for part in (TINY if options.tiny else {}, changes):
        text = merge(text, json.dumps(part), "stage")
    (folder / PARAMS_FILE).write_text(text, "utf-8")
    for name in ("download", "vocab"):
        run_command(f"stages.{name}", folder=folder)
    return folder
