"""Record a finished run in docs/runs, its seeds side by side: its figures, its preset and what differs from that."""

import dataclasses
import re
import time
from pathlib import Path
from typing import Any

from tinylm.base.config import PARAMS_FILE, InputError, load_params
from tinylm.base.files import write_json
from tinylm.compare.provenance import revision, stale
from tinylm.presets.write import Values, differences, flatten, names, preset_values
from tinylm.report.library import RUNS, gather, recorded_runs
from tinylm.report.sources import FILES, Run, read_run

NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
NOT_OF_THE_RUN = ("runtime", "report", "seeds")  # sections that do not change results
SEED = "train.seed"


def _nearest(values: Values) -> tuple[str, list[str]]:
    """(the preset with the fewest differing values, those that differ), ignoring the seed."""
    by_preset = {name: differences(_of_the_run(preset_values(name)), values) for name in names()}
    return min(by_preset.items(), key=lambda item: len(item[1]))


def _of_the_run(values: Values) -> Values:
    """The values that decide what a recorded seed shares with the others."""
    return {
        key: value
        for key, value in values.items()
        if key.split(".")[0] not in NOT_OF_THE_RUN and key != SEED
    }


def _commands(
    name: str, preset: str, differs: list[str], seed: int, stages: list[str]
) -> list[str]:
    edits = [f"{SEED}={seed}"] if seed != preset_values(preset).get(SEED) else []
    for line in differs:
        key, _, change = line.partition(": ")
        edits.append(f"{key}={change.partition(' -> ')[2]}")
    targets = "" if "report" in stages else " " + " ".join(stages)
    first = [f"tinylm preset {preset}", *(f"edit {PARAMS_FILE}: {edit}" for edit in edits)]
    return [*first, f"dvc repro{targets}".rstrip(), f"tinylm record {name}"]


def without_stale(run: Run, folder: str | Path) -> tuple[Run, list[str]]:
    """The run with only what was made with these parameters, and a line for each stage or file left out."""
    stages, files = stale(folder, run.params)
    reasons = {
        name: f"{stage}: {stages[stage]}; dvc repro {stage}"
        if stage in stages
        else f"{files[path]}; dvc repro {stage}"
        for name, (path, stage) in FILES.items()
        if name in run.found and (stage in stages or path in files)
    }
    kept = {name: value for name, value in run.found.items() if name not in reasons}
    return dataclasses.replace(run, found=kept), list(dict.fromkeys(reasons.values()))


def make_entry(name: str, folder: str | Path = ".") -> tuple[dict[str, Any], dict[str, Any]]:
    """(what all seeds share, this seed's figures) of the run in `folder`. Raises InputError if there is none."""
    params = load_params(Path(folder) / PARAMS_FILE)
    run, left_out = without_stale(read_run(folder, params), folder)
    if "train" not in run.found:
        raise InputError("; ".join(["no training run to record: run dvc repro train", *left_out]))
    preset, differs = _nearest(_of_the_run(flatten(params)))
    seed = params["train"]["seed"]
    stages = list(dict.fromkeys(FILES[file][1] for file in run.found))
    if not left_out and not run.problems:
        stages.append("report")
    shared = {
        "name": name,
        "preset": preset,
        "differs": differs,
        "params": {key: section for key, section in params.items() if key not in NOT_OF_THE_RUN},
    }
    entry = {
        "seed": seed,
        "date": time.strftime("%Y-%m-%d"),
        "revision": revision(folder),
        "commands": _commands(name, preset, differs, seed, stages),
        "left_out": left_out,
        **gather(run),
    }
    return shared, entry


def merged(
    old: dict[str, Any] | None, shared: dict[str, Any], entry: dict[str, Any]
) -> dict[str, Any]:
    """The record with this seed beside the earlier ones. Raises InputError if those have other settings."""
    seeds = (
        {}
        if old is None
        else {key: value for key, value in old["seeds"].items() if key != str(entry["seed"])}
    )
    if old is not None and seeds:
        before, after = (_of_the_run(flatten(record["params"])) for record in (old, shared))
        changed = differences(before, after)
        if changed:
            raise InputError(
                f"{shared['name']} holds seeds of other settings ({', '.join(changed[:5])}); record under another "
                "name, or remove its file"
            )
    seeds[str(entry["seed"])] = entry
    ordered = dict(sorted(seeds.items(), key=lambda item: int(item[0])))
    return {**shared, "seeds": ordered}


def _refuse_another_preset(name: str, preset: str, old: dict[str, Any] | None) -> None:
    """InputError if the name is that of another preset than the one that ran, or its record holds another's run."""
    taken = ([name] if name in names() else []) + ([old["preset"]] if old is not None else [])
    for other in taken:
        if other != preset:
            raise InputError(
                f"name {name!r} is for preset {other}, and the run here is of preset {preset}; allowed: {preset}, or a "
                "name that is no preset's and holds no other's run"
            )


def record_run(name: str) -> list[str]:
    """Write docs/runs/NAME.json; returns lines on what was left out and what the file has now."""
    if not NAME.fullmatch(name):
        raise InputError(f"name {name!r}; allowed: small letters, digits and -")
    shared, entry = make_entry(name)
    old = recorded_runs().get(name)
    _refuse_another_preset(name, shared["preset"], old)
    record = merged(old, shared, entry)
    path = Path(RUNS) / f"{name}.json"
    write_json(path, record)
    count = len(shared["differs"])
    differs = (
        f", {count} {'value differs' if count == 1 else 'values differ'} from it" if count else ""
    )
    left_out = [f"left out: {line}" for line in entry["left_out"]]
    return [
        *left_out,
        f"{path}: preset {shared['preset']}{differs}; seeds {', '.join(record['seeds'])}",
    ]


def listed() -> list[str]:
    """A line for each recorded run: preset, seeds, date and stages."""
    lines = []
    for name, record in recorded_runs().items():
        last = list(record["seeds"].values())[-1]
        stages = ", ".join(
            stage for stage in last.get("metrics", {}) if not stage.endswith("_time")
        )
        seeds = ", ".join(record["seeds"])
        lines.append(f"{name}: preset {record['preset']}, seeds {seeds}, {last['date']}: {stages}")
    return lines or ["nothing is recorded; dvc repro, then tinylm record NAME"]
