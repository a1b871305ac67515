"""A new sweep: its values are checked, and the folder's code and parameters are kept."""

import datetime
import itertools
from pathlib import Path
from typing import Any

from tinylm.base.config import PARAMS_FILE, InputError, parse_yaml
from tinylm.base.files import write_json
from tinylm.experiments import sweeps
from tinylm.experiments.git import git
from tinylm.experiments.provenance import untracked
from tinylm.experiments.sweeps import Sweep
from tinylm.params.presets.write import Values

REFS = "refs/tinylm/sweeps"  # keeps the code and parameters of each sweep


def expand_values(overrides: list[str]) -> dict[str, list[Any]]:
    """{key: values} of `-S KEY=VALUE,VALUE`, values written as in params.yaml.

    An empty value (`-S KEY=`) means null, as in params.yaml. Raises InputError.
    """
    axes: dict[str, list[Any]] = {}
    for text in overrides:
        key, equals, values = text.partition("=")
        if not equals or key in axes:
            raise InputError(f"-S: expected KEY=VALUE,VALUE, each key once, got {text}")
        listed = parse_yaml(f"{{values: [{values.strip() or 'null'}]}}", f"-S {text}")["values"]
        if not listed:
            raise InputError(f"-S: expected KEY=VALUE,VALUE, got no values in {text}")
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


def _freeze(name: str) -> tuple[str, str]:
    """(HEAD, a commit of the tracked files as they are now), kept by a reference."""
    head = git("rev-parse", "HEAD")
    commit = git("stash", "create") or head
    git("update-ref", f"{REFS}/{name}", commit)
    return head, commit


def begin(runs: list[Values], target: str, name: str | None = None) -> Sweep:
    """Write a new sweep into its folder.

    runs: the values of each. target: the stage that they end with.
    Raises InputError, and writes nothing, if values are not allowed or git does not track some code.
    """
    if Path(git("rev-parse", "--show-toplevel")).resolve() != Path.cwd():
        raise InputError(f"{Path.cwd()}: not the root of a git repository, which a sweep needs")
    base = Path(PARAMS_FILE).read_text(encoding="utf-8")
    for values in runs:
        sweeps.check_values(base, values)
    if names := untracked("stages", "tinylm"):
        raise InputError(
            f"{names[0]}: not tracked by git, so every run would lack it; git add {names[0]}"
        )
    name = sweeps.new_name(name)
    folder = Path(sweeps.FOLDER) / name
    folder.mkdir(parents=True)
    baseline, commit = _freeze(name)
    sweep = Sweep(name, baseline, commit, target, runs)
    write_json(folder / "sweep.json", vars(sweep))
    return sweep
