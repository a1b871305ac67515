"""Record the finished run in this folder as studies/runs/NAME.csv.

It has the parameters, the metrics, and every number that comparison.yaml, ledger.yaml or answers.yaml names of this run.
A run with another train.seed becomes a further column; the same seed replaces the earlier run.
"""

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd

from studies import answers
from studies.records import RUNS, entries, read_run, settings_of
from tinylm.base.command import Parser, run_command
from tinylm.base.config import InputError, load_params
from tinylm.base.files import read_json, write_bytes
from tinylm.experiments.git import git
from tinylm.params.presets.write import differences, flatten, names, value_as_yaml

NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
OTHER_SECTIONS = ("runtime", "report", "seeds")  # they change no result of a run
SEED = "train.seed"


def refuse_unfinished() -> None:
    """Raise InputError unless all outputs belong to the present code and parameters."""
    status = subprocess.run(
        [sys.executable, "-m", "dvc", "status"], capture_output=True, text=True, check=True
    )
    if "up to date" not in status.stdout:
        raise InputError("the run is not up to date; run dvc repro, then try again")


def leaves(tree: Any, place: str) -> dict[str, Any]:
    """{place: value} of everything below a place."""
    if isinstance(tree, list):
        tree = dict(enumerate(tree))
    if not isinstance(tree, dict):
        return {place: tree}
    found: dict[str, Any] = {}
    for key, value in tree.items():
        found |= leaves(value, f"{place}/{key}")
    return found


def numbers_of_run(name: str) -> dict[str, Any]:
    """Metrics of the run in this folder, and its other numbers that an entry names."""
    metrics: dict[str, Any] = {}
    for path in sorted(Path("metrics").glob("*.json")):
        metrics |= leaves(read_json(path), f"metrics/{path.stem}")
    details: dict[str, Any] = {}
    for path in sorted(Path("data/figures").glob("*.json")):
        details |= leaves(read_json(path), path.stem)
    for path in sorted(Path("data/times").glob("*.json")):
        details |= leaves(read_json(path), f"{path.stem}_time")
    named = answers.places() if name == answers.RUN else set()
    named |= {place for entry in entries() for place in entry.get("numbers", {}).get(name, {})}
    return metrics | {place: details[place] for place in sorted(named & details.keys())}


def record_run(name: str, preset: str) -> list[str]:
    """Write studies/runs/NAME.csv; returns the seeds that it has now. Raises InputError."""
    if not NAME.fullmatch(name):
        raise InputError(f"NAME: expected small letters, digits and -, got {name!r}")
    if preset not in names():
        raise InputError(f"--preset: expected one of {', '.join(names())}, got {preset!r}")
    refuse_unfinished()
    values = {
        key: value
        for key, value in flatten(load_params()).items()
        if key.partition(".")[0] not in OTHER_SECTIONS
    }
    seed = str(values.pop(SEED))
    settings = {key: value_as_yaml(values, key) for key in values}
    run = {
        "preset": preset,
        "date": time.strftime("%Y-%m-%d"),
        "revision": git("rev-parse", "--short=12", "HEAD"),
        **{f"params/{key.replace('.', '/')}": text for key, text in settings.items()},
        **numbers_of_run(f"runs/{name}"),
    }
    column = pd.Series(run, name=seed).astype(str)
    path = Path(RUNS) / f"{name}.csv"
    record = column.to_frame()
    if path.exists():
        earlier = read_run(path)
        changed = "; ".join(differences(settings_of(earlier), settings))
        if changed:
            raise InputError(f"{path} has seeds of other settings; this run changes: {changed}")
        record = earlier.drop(columns=seed, errors="ignore").join(column, how="outer")
    write_bytes(path, record.to_csv(index_label="number").encode())
    return list(record.columns)


def main() -> None:
    parser = Parser(prog="python -m studies.record", description=__doc__)
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--preset", help="the preset that the run follows (default: NAME)")
    arguments = parser.parse_args()
    seeds = record_run(arguments.name, arguments.preset or arguments.name)
    print(f"{RUNS}/{arguments.name}.csv: seeds {', '.join(seeds)}")


if __name__ == "__main__":
    sys.exit(run_command(main))
