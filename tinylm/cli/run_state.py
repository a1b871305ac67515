"""The run of this folder as `publish` and `handin` see it: its files, what is stale, its origin."""

import dataclasses
from typing import TYPE_CHECKING, Any

from tinylm.base.config import load_params

if TYPE_CHECKING:
    from tinylm.exchange.card import Publication
    from tinylm.run.finished_run import FinishedRun
    from tinylm.run.trained_model import TrainedModel


@dataclasses.dataclass(frozen=True)
class RunState:
    """The run of the present parameters.

    run: without the results of stale stages.
    stale: {stage: a line that names it, the reason and the repair}; the report also if anything
        that it shows or its code has changed.
    changed_code: {stage: code that has changed since it ran}.
    """

    run: "FinishedRun"
    stale: dict[str, str]
    changed_code: dict[str, str]


def read_run_state() -> RunState:
    """The state of the run in the current folder.

    Raises InputError for an invalid params.yaml, and for results of a current stage that cannot be read.
    """
    from tinylm.experiments.provenance import read_status
    from tinylm.run.finished_run import RESULTS, read_run

    params = load_params()
    stale, changed_code = read_status()
    run = read_run(".", params, stages=[stage for stage in RESULTS if stage not in stale])
    lines = {}
    for stage, reason in stale.items():
        lines[stage] = f"{stage}: {reason}; run dvc repro {stage}"
    if lines or "report" in changed_code:
        lines.setdefault(
            "report", "report: its contents or its code have changed; run dvc repro report"
        )
    return RunState(run, lines, changed_code)


def new_publication(trained: "TrainedModel", **values: Any) -> "Publication":
    """The publication of the model that stage train wrote, with these values and its origin."""
    from tinylm.exchange.card import Publication
    from tinylm.exchange.generation import untranslated
    from tinylm.experiments.provenance import models_md5, revision

    return Publication(
        commit=revision(),
        models_md5=models_md5(),
        lacks=tuple(untranslated(trained.decode)),
        **values,
    )
