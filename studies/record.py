"""Keep the results of the finished run in this folder as studies/runs/NAME.json.

A run with another train.seed is added to the record of the same name; the same seed replaces the earlier run.
"""

import re
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd

from studies.records import RUNS, Record
from tinylm.base.config import InputError, load_params
from tinylm.base.files import read_json, write_json
from tinylm.compare.provenance import read_status, revision
from tinylm.host.command import Parser, guard
from tinylm.presets.write import Values, differences, flatten, names, preset_values

NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
SEED = "train.seed"
OTHER_SECTIONS = ("runtime", "report", "seeds")  # they change no result of a run
POINTS = 120  # of a curve


def result_values(params: dict[str, Any]) -> Values:
    """The parameters that seeds of one record share."""
    values = flatten(params)
    return {
        key: value
        for key, value in values.items()
        if key.partition(".")[0] not in OTHER_SECTIONS and key != SEED
    }


def refuse_unfinished() -> None:
    """Raise InputError unless the outputs of all stages belong to the present code and parameters."""
    status = read_status()
    changed = sorted((status.stale.keys() | status.code) - {"report"})
    if changed:
        raise InputError(f"stages {', '.join(changed)} are not up to date; dvc repro, then again")


def curve(losses: pd.DataFrame, series: str) -> list[list[float]]:
    """About POINTS points [step, tokens, nats per token] of a series of plots/loss.csv, with the last one."""
    rows = losses.loc[losses["series"] == series, ["step", "tokens", "value"]]
    stride = max(1, len(rows) // POINTS)
    thinned = pd.concat([rows.iloc[::stride], rows.iloc[-1:]])
    return thinned.drop_duplicates().to_numpy().tolist()


def results(folder: Path = Path()) -> dict[str, Any]:
    """Metrics, curves and conditions of the run in a folder."""
    metrics = {path.stem: read_json(path) for path in sorted(folder.glob("data/figures/*.json"))}
    for path in sorted(folder.glob("data/times/*.json")):
        metrics[f"{path.stem}_time"] = read_json(path)
    if "train" not in metrics:
        raise InputError("no trained model to record; dvc repro, then again")
    losses = pd.read_csv(folder / "plots/loss.csv")
    return {
        "date": time.strftime("%Y-%m-%d"),
        "revision": revision(),
        "conditions": metrics.get("train_time", {}).get("conditions", {}),
        "metrics": metrics,
        "curves": {"train": curve(losses, "train"), "held_out": curve(losses, "held-out")},
    }


def merged(old: Record | None, new: Record) -> Record:
    """The new record with the earlier one's other seeds. Raises InputError if that has other settings."""
    if old is None:
        return new
    changed = differences(result_values(old["params"]), result_values(new["params"]))
    if changed:
        raise InputError(f"{new['name']} holds seeds of other settings: {'; '.join(changed[:5])}")
    seeds = old["seeds"] | new["seeds"]
    return new | {"seeds": {seed: seeds[seed] for seed in sorted(seeds, key=int)}}


def record_run(name: str, preset: str) -> list[str]:
    """Write studies/runs/NAME.json; returns the seeds that it has now. Raises InputError."""
    if not NAME.fullmatch(name):
        raise InputError(f"name {name!r}; allowed: small letters, digits and -")
    if preset not in names():
        raise InputError(f"preset {preset!r}; allowed: {' | '.join(names())}")
    refuse_unfinished()
    params = load_params()
    path = Path(RUNS) / f"{name}.json"
    old = read_json(path) if path.exists() else None
    ran = result_values(params)
    of_preset = preset_values(preset)
    as_preset = {key: of_preset[key] for key in ran}
    seed = params["train"]["seed"]
    new = {
        "name": name,
        "preset": preset,
        "differs": differences(as_preset, ran),
        "params": {key: params[key] for key in params if key not in OTHER_SECTIONS},
        "seeds": {str(seed): {"seed": seed, **results()}},
    }
    record = merged(old, new)
    write_json(path, record)
    return list(record["seeds"])


def main() -> None:
    parser = Parser(prog="python -m studies.record", description=__doc__)
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--preset", help="the preset that the run follows (default: NAME)")
    arguments = parser.parse_args()
    seeds = record_run(arguments.name, arguments.preset or arguments.name)
    print(f"{RUNS}/{arguments.name}.json: seeds {', '.join(seeds)}")


if __name__ == "__main__":
    sys.exit(guard(main))
