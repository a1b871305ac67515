"""What a stage found, in two files: all of it, and the few figures that a person compares."""

from typing import Any

from tinylm.base import paths
from tinylm.base.files import write_json


def write_results(stage: str, figures: dict[str, Any], **shown: Any) -> None:
    """Write data/figures/STAGE.json, and the numbers `shown` as metrics/STAGE.json.

    Neither holds anything that differs between equal runs (see tinylm/host/times.py). `dvc metrics show` has one table
    for all stages, with a column for each name: a new name widens it for everyone, so stages share names where they
    mean the same.
    """
    write_json(paths.figures(stage), figures, sealed=True)
    write_json(paths.metrics(stage), shown)
