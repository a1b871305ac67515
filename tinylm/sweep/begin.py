"""A new sweep: its values are read and checked, and what is in the folder is kept for all of its runs."""

import math
import os
from pathlib import Path
from typing import Any

from tinylm.base.config import PARAMS_FILE, InputError, load_params
from tinylm.base.files import write_json
from tinylm.host.stage_inputs import PIPELINE
from tinylm.presets.write import Values
from tinylm.sweep import halving, plan
from tinylm.sweep.plan import Sweep
from tinylm.sweep.recording import expanded, freeze, git


def seeds_of(text: str | None) -> list[int]:
    """The seeds of `--seeds 1,2,3`; [] without any. Raises InputError."""
    words = text.split(",") if text is not None else []
    if not all(word.strip().isdecimal() for word in words) or len(
        {int(word) for word in words}
    ) != len(words):
        raise InputError(
            f"--seeds {text}; allowed: different whole numbers with commas between them, such as 1,2,3"
        )
    return [int(word) for word in words]


def targets_of(stage: str, workers: int, on: str) -> list[str]:
    """The stages that `--to STAGE` stands for: itself, or one for each of `seeds.more`. Raises InputError."""
    stages = {
        name: how
        for name, how in load_params(PIPELINE)["stages"].items()
        if name not in ("download", "vocab")
    }
    if stage not in stages:
        raise InputError(f"--to {stage}; allowed: {' | '.join(stages)}")
    if stage in plan.TIMED and (workers > 1 or on != "local"):
        raise InputError(
            f"--to {stage} measures times, which runs beside it disturb; allowed: with --workers 1, locally"
        )
    over = list(stages[stage].get("matrix", {}).values())
    if not over:
        return [stage]
    section, _, key = str(over[0]).strip("${}").partition(".")
    more = load_params()[section][key]
    if not more:
        raise InputError(
            f"--to {stage} is for the seeds of {section}.{key}, and there are none; allowed: such as [2]"
        )
    return [f"{stage}@{member}" for member in more]


def grid(values: list[str], seeds: str | None, targets: list[str]) -> list[tuple[Values, str]]:
    """(values, stage it ends with) of each run that `-S` and `--seeds` ask for. Raises InputError."""
    axes, each = expanded(values), seeds_of(seeds)
    _check_number(math.prod(map(len, axes.values())) * max(1, len(each)) * len(targets))
    runs = plan.product(axes, each)
    if not values and not seeds and len(targets) == 1 and "@" not in targets[0]:
        raise InputError("nothing to try; allowed: -S KEY=VALUE,VALUE or --seeds N,N")
    if again := next((run for number, run in enumerate(runs) if run in runs[:number]), None):
        said = " ".join(f"{key}={value}" for key, value in again.items())
        raise InputError(f"{said} would run twice; allowed: each value of -S once")
    return [(run, target) for run in runs for target in targets]


def _check_number(runs: int) -> None:
    if runs > plan.MOST:
        raise InputError(f"{runs} runs; allowed: at most {plan.MOST}")


def slurm_options(words: list[str], threads: int) -> dict[str, Any]:
    """What submitit is given for `--slurm KEY=VALUE`, sbatch's long options. Raises InputError."""
    more: dict[str, Any] = {"requeue": True}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise InputError(f"--slurm {word}; allowed: KEY=VALUE, such as time=60 partition=gpu")
        more[key.replace("_", "-")] = value
    minutes = more.pop("time", "60")
    if not minutes.isdecimal():
        raise InputError(f"--slurm time={minutes}; allowed: whole minutes")
    return {
        "cpus_per_task": threads,
        "timeout_min": int(minutes),
        "slurm_additional_parameters": more,
    }


def begin(
    planned: list[tuple[Values, str]],
    name: str | None,
    workers: int,
    on: str,
    memory_gib: float | None,
    factor: int | None = None,
    timed: bool = False,
) -> Sweep:
    """Write a new sweep into its folder. Raises InputError, and writes nothing, if none of its runs could begin."""
    if Path(git("rev-parse", "--show-toplevel")).resolve() != Path.cwd():
        raise InputError(
            f"{Path.cwd()}: not the folder of a git repository, whose root a sweep needs; cd there"
        )
    base, runs = Path(PARAMS_FILE).read_text(encoding="utf-8"), [run for run, _ in planned]
    _check_number(len(runs))
    problems = {str(n): said for n, run in enumerate(runs, 1) if (said := plan.problem(base, run))}
    if len(problems) == len(runs):
        raise InputError(next(iter(problems.values())))
    chosen = plan.new_name(name)
    folder = Path(plan.FOLDER) / chosen
    folder.mkdir(parents=True)
    trials, rule = [], None
    if factor is not None:
        every = load_params()["train"]["validate_every"]
        rule = [min(run.get("train.validate_every", every) for run in runs), factor]
        trials = halving.trials(folder, len(runs), *rule)
    if memory_gib is None and on == "local":
        memory_gib = round(
            os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30 / workers, 1
        )
    baseline, commit = freeze(chosen, folder.absolute() / "index")
    targets = [target for _, target in planned]
    sweep = Sweep(
        chosen, baseline, commit, targets, runs, problems, memory_gib, rule, trials, timed
    )
    for number, said in problems.items():
        sweep.end(int(number), state=plan.FAILED, why=said)
        print(f"run {number} ({sweep.label(int(number))}): {said}", flush=True)
    write_json(folder / "sweep.json", vars(sweep))
    return sweep
