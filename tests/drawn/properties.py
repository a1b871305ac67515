"""What must hold for every legal run: properties by name, and how far a run must have come for each.

@holds("trained")
def checkpoints_are_those_that_were_asked_for(drawn: DrawnRun, folder: Path) -> None:
    ...

A property gets a run that is planted in `folder` and has finished the stages of its level. It only reads the folder, unless
its level is `alone`: then it gets an empty folder of its own and runs what it needs.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.drawn.corpora import Files
from tests.drawn.drawing import DrawnRun
from tests.drawn.running import LEVELS, advance, finish

ALONE = "alone"
EVERY_STAGE_ENDS = "every_stage_ends"  # the property that stages themselves show
# Each registers its properties when it is imported.
MODULES: tuple[str, ...] = (
    "report",
    "pictured",
    "trained",
    "sizes",
    "models",
    "batches",
    "exports",
    "interface",
    "rows",
    "refusals",
    "cuts",
    "reruns",
    "histories",
    "resumed",
    "measured",
    "judged",
    "benched",
    "decoded",
)

Check = Callable[[DrawnRun, Path], None]


@dataclass(frozen=True)
class Property:
    """One property. level: of LEVELS, or ALONE. settings_alone: its corpus does not matter."""

    name: str
    check: Check
    level: str
    settings_alone: bool = False


PROPERTIES: dict[str, Property] = {}


def holds(level: str, settings_alone: bool = False) -> Callable[[Check], Check]:
    """Register a property under the name of its function."""
    assert level == ALONE or level in LEVELS

    def register(check: Check) -> Check:
        PROPERTIES[check.__name__] = Property(check.__name__, check, level, settings_alone)
        return check

    return register


def load_properties() -> dict[str, Property]:
    """All properties, by name."""
    for module in MODULES:
        importlib.import_module(f"tests.drawn.{module}")
    return PROPERTIES


def check_property(name: str, drawn: DrawnRun, folder: Path) -> None:
    """Run the stages that a property needs, and check it alone."""
    if name == EVERY_STAGE_ENDS:
        finish(drawn, folder)
        return
    chosen = load_properties()[name]
    if chosen.level != ALONE:
        for level in LEVELS[: LEVELS.index(chosen.level) + 1]:
            advance(level, drawn, folder)
    chosen.check(drawn, folder)


def to_yaml(name: str, drawn: DrawnRun, reason: str) -> str:
    """A run on which a property failed, as a file of tests/drawn/found/."""
    files = {key: value for key, value in vars(drawn.files).items() if value}
    content = {"property": name, "number": drawn.number, "changes": drawn.changes, "files": files}
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)
    comment = "".join(f"# {line}\n" for line in reason.splitlines())
    return comment + text


def from_yaml(text: str) -> tuple[str, DrawnRun]:
    """(the property's name, the run) of such a file."""
    content = yaml.safe_load(text)
    drawn = DrawnRun(content["changes"], Files(**content["files"]), content["number"])
    return content["property"], drawn
