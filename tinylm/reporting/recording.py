"""A run as one plain value: every metric, thinned curves and a few samples."""

from collections.abc import Collection
from typing import Any

from tinylm.reporting.seeds import Seeds
from tinylm.reporting.sources import STAGES, Run, as_number

POINTS = 120  # of a series that are kept
SAMPLES = 3

Point = list[float]  # step, tokens, value


def _points(run: Run, series: str) -> list[Point]:
    found: list[Point] = []
    for row in run.rows("loss"):
        step, tokens, value = (as_number(row.get(key)) for key in ("step", "tokens", "value"))
        if row.get("series") == series and step is not None and tokens is not None and value is not None:
            found.append([round(step), round(tokens), value])
    return found


def thin(points: list[Point], kept_steps: Collection[float] = (), most: int = POINTS) -> list[Point]:
    """At most about `most` points evenly spread, the last one and those at `kept_steps` always."""
    stride = -(-len(points) // most) if points else 1
    last = len(points) - 1
    return [point for i, point in enumerate(points) if i % stride == 0 or i == last or point[0] in kept_steps]


def _conditions(run: Run) -> dict[str, Any]:
    """What the run was measured on: of stage train, else of the first stage that says so."""
    found = [run.mapping(f"{stage}_time", "conditions") for stage in ("train", *STAGES)]
    return next((conditions for conditions in found if conditions), {})


def gather(run: Run) -> dict[str, Any]:
    """Everything of a run that is recorded, as JSON holds it; what the run lacks is left out."""
    metrics = {name: run.found[name] for stage in STAGES for name in (stage, f"{stage}_time") if name in run.found}
    train, held_out = _points(run, "train"), _points(run, "held-out")
    steps = {point[0] for point in held_out}
    beams = run.rows("beams")
    return {
        "conditions": _conditions(run),
        "metrics": metrics,
        "curves": {"train": thin(train, steps), "held_out": thin(held_out)},
        "samples": run.rows("samples")[:SAMPLES],
        "stories": run.rows("stories")[-1:],
        "beams": [row for row in beams if row.get("prompt") == beams[0].get("prompt")],
    }


def figures(entry: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    """A recorded seed as expressions see it: metrics by file name, curves, samples, params."""
    rest = {key: value for key, value in entry.items() if key != "metrics"}
    return {**rest, **entry.get("metrics", {}), "params": params}


def of_run(run: Run) -> Seeds:
    """The run of a workspace as expressions see it: one seed."""
    return Seeds((figures(gather(run), run.params),))
