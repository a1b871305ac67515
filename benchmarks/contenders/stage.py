"""Stage train of the pipeline, in a folder that already has its stories and vocabulary."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.frame import Setup, Step, run_command, seconds
from tinylm.base import paths
from tinylm.base.files import read_json


def stage_train(setup: Setup) -> Step:
    """All of the command: its start, reading, updates, validations, samples, snapshots and results.

    setup: folder, which has params.yaml and the results of stages download and vocab.
    """
    folder = Path(setup["folder"])

    def step(request: Mapping[str, Any]) -> dict[str, Any]:
        taken = seconds(lambda: run_command("stages.train", folder=folder))
        return {"seconds": taken, "tokens": read_json(folder / paths.results("train"))["tokens"]}

    return step
