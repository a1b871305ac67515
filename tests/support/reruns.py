"""Which stages an edit of a section of params.yaml runs again, by what dvc.yaml lists.

`python -m tests.support.reruns` prints what stands in docs/reference/pipeline.md between the two markers.
"""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from tinylm.base.config import load_params, read_yaml

ROOT = Path(__file__).parents[2]
PARAMS = load_params(ROOT / "tinylm/presets/storybook.yaml")
PIPELINE: dict[str, dict[str, Any]] = read_yaml(ROOT / "dvc.yaml")["stages"]
STAGES = tuple(PIPELINE)
BEGIN, END = "<!-- rerun-table -->", "<!-- /rerun-table -->"
# Scores of single stories: the same bytes, whatever else of their stage a section changes.
SCORES = ("data/seeds/train.json", "data/seeds/2.json")
SAME_BYTES = {"decode": SCORES, "cache": SCORES, "evaluate": SCORES}


def filled(path: str) -> str:
    """A path of dvc.yaml with the values of params.yaml and seed 2."""
    path = re.sub(r"\$\{(\w+)\.(path)\}", lambda match: PARAMS[match[1]][match[2]], path)
    return path.replace("${item.seed}", "2")


def dependencies(stage: dict[str, Any]) -> set[str]:
    return {filled(entry) for entry in stage["deps"]}


def outputs(stage: dict[str, Any], *kinds: str) -> dict[str, bool]:
    """{path: whether DVC caches it}"""
    cached: dict[str, bool] = {}
    for kind in kinds or ("outs", "metrics", "plots"):
        for entry in stage.get(kind, []):
            if isinstance(entry, str):
                cached[filled(entry)] = True
            else:
                ((path, options),) = entry.items()
                cached[filled(path)] = options.get("cache", True)
    return cached


def covers(named: Collection[str], path: str) -> bool:
    """Whether the file, or a folder above it, is among those named."""
    return any(f"{path}/".startswith(f"{name}/") for name in named)


def reached_by(section: str) -> set[str]:
    """The stages that read a section, and all that depend on what these change."""
    reached: set[str] = set()
    changed: set[str] = set()
    for name, stage in PIPELINE.items():  # in the order of the graph
        needed = dependencies(stage)
        reads = section in stage.get("params", []) or f"{section}." in str(stage.get("matrix"))
        if reads or any(
            covers(needed, path) or covers({path}, d) for d in needed for path in changed
        ):
            reached.add(name)
            changed |= outputs(stage).keys() - set(SAME_BYTES.get(section, ()))
    return reached


def markdown() -> str:
    """The table: a row for each section, a mark under each stage that runs again."""
    lines = ["| edited | " + " | ".join(STAGES) + " |", "|---|" + ":-:|" * len(STAGES)]
    for section in PARAMS:
        reached = reached_by(section)
        marks = ("●" if stage in reached else " " for stage in STAGES)
        lines.append(f"| `{section}` | {' | '.join(marks)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")
