"""A new sweep: its values are checked, and the folder's code and parameters are kept."""

import itertools
from pathlib import Path
from typing import Any

import psutil

from tinylm.base.code import PIPELINE
from tinylm.base.config import PARAMS_FILE, InputError, read_yaml
from tinylm.base.files import write_json
from tinylm.presets.write import Values
from tinylm.sweep import plan
from tinylm.sweep.plan import Sweep
from tinylm.sweep.recording import expand_values, freeze, git


def check_target(stage: str, workers: int, on: str) -> None:
    """InputError for a stage that a run cannot end with."""
    stages = read_yaml(PIPELINE)["stages"]
    allowed = [name for name, text in stages.items() if "matrix" not in text]
    if stage not in allowed:
        raise InputError(f"--to: expected one of {', '.join(allowed)}, got {stage}")
    if stage in plan.TIMED and (workers > 1 or on != "local"):
        raise InputError(f"--to: {stage} measures times, so it needs --workers 1 and --on local")


def grid(overrides: list[str]) -> list[Values]:
    """The values of each run; those of the last key change fastest. Raises InputError."""
    axes = expand_values(overrides)
    if not axes:
        raise InputError("expected values to try: -S KEY=VALUE,VALUE or --seeds N,N")
    return [dict(zip(axes, values)) for values in itertools.product(*axes.values())]


def slurm_options(words: list[str], threads: int) -> dict[str, Any]:
    """submitit's parameters for `--slurm KEY=VALUE`, sbatch's long options. Raises InputError."""
    try:
        more: dict[str, Any] = dict(word.split("=", 1) for word in words)
        minutes = int(more.pop("time", "60"))
    except ValueError:
        given = " ".join(words)
        raise InputError(
            f"--slurm: expected KEY=VALUE, with time in minutes, got {given}"
        ) from None
    long_options = {key.replace("_", "-"): value for key, value in more.items()}
    return {
        "cpus_per_task": threads,
        "timeout_min": minutes,
        "slurm_additional_parameters": {"requeue": True} | long_options,
    }


def begin(
    runs: list[Values], target: str, name: str | None = None, memory_gib: float | None = None
) -> Sweep:
    """Write a new sweep into its folder.

    runs: the values of each. target: the stage that they end with.
    Raises InputError, and writes nothing, if values are not allowed.
    """
    if Path(git("rev-parse", "--show-toplevel")).resolve() != Path.cwd():
        raise InputError(f"{Path.cwd()}: not the root of a git repository, which a sweep needs")
    base = Path(PARAMS_FILE).read_text(encoding="utf-8")
    for values in runs:
        plan.check_values(base, values)
    name = plan.new_name(name)
    folder = Path(plan.FOLDER) / name
    folder.mkdir(parents=True)
    baseline, commit = freeze(name)
    sweep = Sweep(name, baseline, commit, target, runs, memory_gib)
    write_json(folder / "sweep.json", vars(sweep))
    return sweep


def share_of_memory(workers: int) -> float:
    """Each worker's share of this machine's memory, in GiB."""
    return round(psutil.virtual_memory().total / 2**30 / workers, 1)
