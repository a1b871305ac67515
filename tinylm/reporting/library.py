"""What was published and what was recorded, as the names that expressions know: published, runs, studies."""

from pathlib import Path
from typing import Any

from tinylm.base.config import InputError, load_params
from tinylm.base.files import read_json
from tinylm.reporting.recording import figures
from tinylm.reporting.seeds import Seeds

PUBLISHED = Path(__file__).with_name("published.yaml")
SYSTEMS = ("assignment", "A", "B", "D", "E")
RUNS, STUDIES = "docs/runs", "docs/studies"


def published() -> dict[str, Any]:
    """The figures of the five systems by name."""
    return load_params(PUBLISHED)


def _objects(folder: Path, key: str) -> dict[str, dict[str, Any]]:
    """The JSON files of a folder by name; InputError names one that does not hold an object under `key`."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        value = read_json(path)
        if not isinstance(value, dict) or not isinstance(value.get(key), dict):
            raise InputError(f"{path}: holds no {key}; rm {path} and record it again")
        found[path.stem] = value
    return found


def recorded_runs(folder: str | Path = ".") -> dict[str, dict[str, Any]]:
    """docs/runs/*.json by name, see `tinylm record`."""
    return _objects(Path(folder) / RUNS, "seeds")


def recorded_studies(folder: str | Path = ".") -> dict[str, dict[str, Any]]:
    """docs/studies/*.json by name, see `tinylm study`."""
    return _objects(Path(folder) / STUDIES, "settings")


def run_figures(record: dict[str, Any]) -> Seeds:
    """A recorded run as expressions see it."""
    return Seeds(tuple(figures(entry, record.get("params", {})) for entry in record["seeds"].values()))


def _study_figures(record: dict[str, Any]) -> dict[str, Any]:
    settings = {name: Seeds(tuple(row["runs"].values())) for name, row in record["settings"].items()}
    return {**settings, "data": record.get("data", {})}


def library(folder: str | Path = ".") -> dict[str, Any]:
    """Names for `expressions.evaluate`; what is not recorded is Missing there. Raises InputError for a damaged file."""
    return {
        "published": published(),
        "runs": {name: run_figures(record) for name, record in recorded_runs(folder).items()},
        "studies": {name: _study_figures(record) for name, record in recorded_studies(folder).items()},
    }
