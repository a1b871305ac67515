"""Stage train as a contender. Its folder already has stories and a vocabulary."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.frame import Setup, Step, run_command, seconds
from tinylm.base import paths
from tinylm.base.files import read_json


def stage_train(setup: Setup) -> Step:
    """The whole command: start, reading, updates, validations, samples, snapshots and results.

    setup: folder, with params.yaml and the outputs of stages download and vocab.
    """
    folder = Path(setup["folder"])

    def step(request: Mapping[str, Any]) -> dict[str, Any]:
        taken = seconds(lambda: run_command("stages.train", folder=folder))
        return {"seconds": taken, "tokens": read_json(folder / paths.results("train"))["tokens"]}

    return step
