"""What was published and what was recorded: published.yaml, docs/runs, docs/studies and the ledger made from them."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tinylm.base.config import InputError, load_params
from tinylm.base.files import atomic_write, read_json
from tinylm.report.figures import Figures, is_recorded
from tinylm.report.sources import STAGES, Run, as_number

PUBLISHED = Path(__file__).with_name("published.yaml")
SYSTEMS = ("assignment", "A", "B", "D", "E")
RUNS, STUDIES, LEDGER = "docs/runs", "docs/studies", "docs/ledger.yaml"
REPRODUCED, CONTRADICTED, DEPENDS, UNTESTABLE, NOT_RUN = STATUSES = (
    "reproduced",
    "contradicted",
    "depends on",
    "not testable here",
    "not run yet",
)
LEDGER_HEAD = """\
# Claims of five published course works, decided by published and recorded figures. Written by `tinylm record --ledger`,
# and by each `tinylm record` and `tinylm study`: do not edit. The rules are tinylm/studies/ledger_*.py.
"""
POINTS = 120  # of a run's curve that are recorded
SAMPLES = 3

Point = list[float]  # step, tokens, value


@dataclass(frozen=True)
class Entry:
    """A claim of a published system with its status and its evidence; kind: of source, such as course report (A)."""

    name: str
    system: str
    kind: str
    claim: str
    status: str
    evidence: str
    command: str


@dataclass(frozen=True)
class Library:
    """Published figures by system, recorded runs and recorded studies by name."""

    published: Figures
    runs: Figures
    studies: Figures

    def sides(self, system: str) -> tuple[Figures, Figures]:
        """A system's published figures, and our recorded run of its preset."""
        theirs = self.published[system]
        return theirs, self.runs[theirs.preset]

    def unrecorded(self) -> list[str]:
        """The presets of the systems that have no recorded run."""
        return [self.published[s].preset for s in SYSTEMS if not is_recorded(self.sides(s)[1])]


def published() -> dict[str, Any]:
    """The figures of the five systems by name."""
    return load_params(PUBLISHED)


def _objects(folder: Path, key: str) -> dict[str, dict[str, Any]]:
    """The JSON files of a folder by name; InputError names a file that does not have an object under `key`."""
    objects = {}
    for path in sorted(folder.glob("*.json")):
        value = read_json(path)
        if not isinstance(value, dict) or not isinstance(value.get(key), dict):
            raise InputError(f"{path}: holds no {key}; rm {path} and record it again")
        objects[path.stem] = value
    return objects


def recorded_runs(folder: str | Path = ".") -> dict[str, dict[str, Any]]:
    """docs/runs/*.json by name, see `tinylm record`."""
    return _objects(Path(folder) / RUNS, "seeds")


def recorded_studies(folder: str | Path = ".") -> dict[str, dict[str, Any]]:
    """docs/studies/*.json by name, see `tinylm study`."""
    return _objects(Path(folder) / STUDIES, "settings")


def _branch(entry: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    """One seed of a run, by the names under which it is read: metrics by file name, curves, samples, params."""
    rest = {key: value for key, value in entry.items() if key != "metrics"}
    return {**rest, **entry.get("metrics", {}), "params": params}


def of_run(run: Run) -> Figures:
    """The figures of a folder's run."""
    return Figures(_branch(gather(run), run.params))


def _of_record(record: dict[str, Any]) -> Figures:
    return Figures(
        *(_branch(entry, record.get("params", {})) for entry in record["seeds"].values())
    )


def _of_study(record: dict[str, Any]) -> Figures:
    settings = {name: Figures(*row["runs"].values()) for name, row in record["settings"].items()}
    return Figures({**settings, "data": record.get("data", {})})


def library(folder: str | Path = ".") -> Library:
    """Everything published and recorded. Raises InputError for a damaged file."""
    return Library(
        Figures(published()),
        Figures({name: _of_record(record) for name, record in recorded_runs(folder).items()}),
        Figures({name: _of_study(record) for name, record in recorded_studies(folder).items()}),
    )


def write_ledger(entries: Iterable[Entry], folder: str | Path = ".") -> None:
    """Write docs/ledger.yaml."""
    rows = {
        entry.name: {key: value for key, value in asdict(entry).items() if key != "name"}
        for entry in entries
    }
    dumper = YAML()
    dumper.width = 120
    with atomic_write(Path(folder) / LEDGER) as handle:
        handle.write(LEDGER_HEAD)
        dumper.dump(rows, handle)


def read_ledger(folder: str | Path = ".") -> list[Entry]:
    """The entries of docs/ledger.yaml. Raises InputError if it is missing or damaged."""
    wanted = {field.name for field in fields(Entry)} - {"name"}
    entries = []
    for name, row in load_params(Path(folder) / LEDGER).items():
        if not isinstance(row, dict) or set(row) != wanted or row["status"] not in STATUSES:
            raise InputError(
                f"{LEDGER}: {name} is not whole; tinylm record --ledger writes the file"
            )
        entries.append(Entry(name, **row))
    return entries


def counts(entries: list[Entry]) -> str:
    """The number of claims with each status that occurs, such as `26 reproduced, 28 contradicted`."""
    by_status = Counter(entry.status for entry in entries)
    return ", ".join(f"{by_status[status]} {status}" for status in STATUSES if by_status[status])


def _points(run: Run, series: str) -> list[Point]:
    points: list[Point] = []
    for row in run.rows("loss"):
        step, tokens, value = (as_number(row.get(key)) for key in ("step", "tokens", "value"))
        if (
            row.get("series") == series
            and step is not None
            and tokens is not None
            and value is not None
        ):
            points.append([round(step), round(tokens), value])
    return points


def thin(
    points: list[Point], kept_steps: Collection[float] = (), most: int = POINTS
) -> list[Point]:
    """About `most` points at most, evenly spread, always including the last one and those at `kept_steps`."""
    stride = -(-len(points) // most) if points else 1
    last = len(points) - 1
    return [
        point
        for i, point in enumerate(points)
        if i % stride == 0 or i == last or point[0] in kept_steps
    ]


def _widths(run: Run) -> list[dict[str, Any]]:
    """Entropy of every head at the kept moments of training, in nats."""
    keys = ("layer", "head", "entropy_nats")
    found = [
        {
            "epochs": run.epochs_of(row.get("epochs")),
            **{key: as_number(row.get(key)) for key in keys},
        }
        for row in run.rows("heads_training")
    ]
    return [row for row in found if None not in row.values()]


def _conditions(run: Run) -> dict[str, Any]:
    """What the run was measured on, according to stage train or else the first stage that says so."""
    by_stage = [run.mapping(f"{stage}_time", "conditions") for stage in ("train", *STAGES)]
    return next((conditions for conditions in by_stage if conditions), {})


def gather(run: Run) -> dict[str, Any]:
    """A run as it is recorded, in JSON types: every metric, thinned curves, a few samples; without what it lacks."""
    metrics = {
        name: run.found[name]
        for stage in STAGES
        for name in (stage, f"{stage}_time")
        if name in run.found
    }
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
        "heads_training": _widths(run),
    }
