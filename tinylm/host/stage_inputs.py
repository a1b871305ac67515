"""Refuse a result whose inputs were edited while its stage ran.

DVC records the inputs as they are when a stage has ended, not as they were when it began. It would
take the result for that of the edited parameters or code.
"""

import sys
from pathlib import Path
from typing import Any

from tinylm.base.code import PIPELINE, code_sha256
from tinylm.base.config import PARAMS_FILE, InputError, load_params, parameter
from tinylm.host.command import CommandFailed, check_at_end


def _inputs(stage: str, params: dict[str, Any]) -> dict[str, Any]:
    """{name: value} of the parameters that dvc.yaml lists for the stage, and the hash of its code."""
    stages = load_params(PIPELINE)["stages"] if Path(PIPELINE).exists() else {}
    names = stages.get(stage, {}).get("params", sorted(params))
    inputs = {f"{PARAMS_FILE}: {name}": parameter(params, name) for name in names}
    return inputs | {"the code": code_sha256(f"stages/{stage}.py")}


def refuse_edits(params: dict[str, Any]) -> None:
    """Let the stage that this process runs fail at its end if its inputs were edited meanwhile."""
    running = getattr(getattr(sys.modules["__main__"], "__spec__", None), "name", "")
    if not running.startswith("stages."):
        return
    stage = running.removeprefix("stages.")
    before = _inputs(stage, params)

    def compare() -> None:
        try:
            after = _inputs(stage, load_params())
        except InputError:  # it is being edited
            after = {}
        edited = [name for name in before if after.get(name) != before[name]]
        if edited:
            raise CommandFailed(
                f"{edited[0]} changed while stage {stage} ran: its result is not recorded; "
                "run dvc repro again"
            )

    check_at_end(compare)
