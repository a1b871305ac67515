"""A new sweep: its values are checked, and the folder's code and parameters are kept."""

import datetime
import itertools
from pathlib import Path
from typing import Any

from tinylm.base.config import PARAMS_FILE, InputError, parse_yaml
from tinylm.base.files import write_json
from tinylm.experiments import plan
from tinylm.experiments.plan import Sweep
from tinylm.experiments.recording import freeze, git, refuse_untracked_code
from tinylm.params.presets.write import Values


def expand_values(overrides: list[str]) -> dict[str, list[Any]]:
    """{key: values} of `-S KEY=VALUE,VALUE`, values written as in params.yaml. Raises InputError."""
    axes: dict[str, list[Any]] = {}
    for text in overrides:
        key, equals, values = text.partition("=")
        if not equals or key in axes:
            raise InputError(f"-S: expected KEY=VALUE,VALUE, each key once, got {text}")
        listed = parse_yaml(f"{{values: [{values}]}}", f"-S {text}")["values"]
        for place, value in enumerate(listed):
            if isinstance(value, datetime.date):
                raise InputError(f"-S {text}: expected text, got a date; write it in quotes")
            if value in listed[:place]:
                raise InputError(f"-S {text}: expected different values, got {value} twice")
        axes[key] = listed
    return axes


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


def begin(runs: list[Values], target: str, name: str | None = None) -> Sweep:
    """Write a new sweep into its folder.

    runs: the values of each. target: the stage that they end with.
    Raises InputError, and writes nothing, if values are not allowed.
    """
    if Path(git("rev-parse", "--show-toplevel")).resolve() != Path.cwd():
        raise InputError(f"{Path.cwd()}: not the root of a git repository, which a sweep needs")
    base = Path(PARAMS_FILE).read_text(encoding="utf-8")
    for values in runs:
        plan.check_values(base, values)
    refuse_untracked_code()
    name = plan.new_name(name)
    folder = Path(plan.FOLDER) / name
    folder.mkdir(parents=True)
    baseline, commit = freeze(name)
    sweep = Sweep(name, baseline, commit, target, runs)
    write_json(folder / "sweep.json", vars(sweep))
    return sweep
