"""Refuse a result whose inputs were edited while its stage ran.

DVC records the inputs as they are when a stage has ended, not as they were when it began. It would
take the result for that of the edited parameters or code.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tinylm.base.code import PIPELINE, code_sha256
from tinylm.base.config import PARAMS_FILE, InputError, load_params
from tinylm.host.command import CommandFailed, check_at_end


def _section_names(stage: str, params: dict[str, Any]) -> list[str]:
    """The sections that dvc.yaml lists for a stage; all of them if it does not have the stage."""
    stages = load_params(PIPELINE)["stages"] if Path(PIPELINE).exists() else {}
    names: list[str] = stages.get(stage, {}).get("params", sorted(params))
    return names


def _inputs(stage: str, params: dict[str, Any]) -> dict[str, Any]:
    """{name: value} of the stage's sections and the hash of its code."""
    names = _section_names(stage, params)
    inputs = {f"{PARAMS_FILE}: section {name}": params.get(name) for name in names}
    inputs["the code"] = code_sha256(f"stages/{stage}.py")
    return inputs


def refuse_edits(params: dict[str, Any]) -> None:
    """Let the stage that this process runs fail at its end if its inputs were edited meanwhile."""
    running = getattr(getattr(sys.modules["__main__"], "__spec__", None), "name", "")
    if running.startswith("stages."):
        stage = running.removeprefix("stages.")
        check_at_end(_comparison(stage, _inputs(stage, params)))


def _comparison(stage: str, before: dict[str, Any]) -> Callable[[], None]:
    def compare() -> None:
        try:
            after = _inputs(stage, load_params())
        except InputError:  # it is being edited
            after = {}
        edited = [name for name, value in before.items() if after.get(name) != value]
        if edited:
            raise CommandFailed(
                f"{edited[0]} changed while stage {stage} ran: its result is not recorded; "
                "run dvc repro again"
            )

    return compare
