"""The run of this folder as `publish` and `handin` see it: its files, what is stale, its origin."""

import dataclasses
from typing import TYPE_CHECKING, Any

from tinylm.base import paths
from tinylm.base.config import load_params

if TYPE_CHECKING:
    from tinylm.exchange.card import Publication
    from tinylm.exchange.export import Trained
    from tinylm.report.sources import Run


@dataclasses.dataclass(frozen=True)
class RunState:
    """The run of the present parameters.

    run: without the files that other parameters made.
    stale: one line for each stage whose results were left out, with the reason.
    has_report: whether the report shows this run.
    """

    params: dict[str, Any]
    run: "Run"
    stale: list[str]
    has_report: bool


def read_run_state() -> RunState:
    """The state of the run in the current folder. Raises InputError if params.yaml is wrong."""
    from tinylm.compare.provenance import is_current, without_stale
    from tinylm.report.sources import read_run

    params = load_params()
    run, stale = without_stale(read_run(".", params), ".")
    return RunState(params, run, stale, is_current(".", params, "report"))


def load_trained() -> "Trained":
    """The model that stage train wrote, for an export."""
    from tinylm.exchange.export import Trained
    from tinylm.exchange.loading import load_parts

    return Trained(paths.MODELS, paths.TOKENIZER, *load_parts(paths.MODELS, paths.TOKENIZER))


def new_publication(trained: "Trained", **values: Any) -> "Publication":
    """The publication of a trained model with these values and its origin.

    Raises InputError if the model's bytes are not those of stage train.
    """
    from tinylm.compare.provenance import output_md5, revision, uncommitted
    from tinylm.exchange.card import Origin, Publication
    from tinylm.exchange.generation import untranslated

    changed = uncommitted(".", "dvc.lock", "dvc.yaml", "params.yaml")
    origin = Origin(revision(), output_md5(".", "train", paths.MODELS), changed)
    return Publication(origin=origin, lacks=tuple(untranslated(trained.decode)), **values)
