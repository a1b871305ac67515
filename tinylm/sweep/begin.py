"""A new sweep: its values are read and checked, and what is in the folder is kept for all of its runs."""

import os
from pathlib import Path
from typing import Any

from tinylm.base.config import PARAMS_FILE, InputError, load_params
from tinylm.base.files import write_json
from tinylm.host.stage_inputs import PIPELINE
from tinylm.sweep import halving, plan
from tinylm.sweep.plan import Sweep
from tinylm.sweep.recording import expanded, freeze, git

MOST = 9999  # runs


def _seeds(text: str | None) -> list[int]:
    words = text.split(",") if text is not None else []
    if not all(word.strip().isdecimal() for word in words) or len({int(word) for word in words}) != len(words):
        raise InputError(f"--seeds {text}; allowed: different whole numbers with commas between them, such as 1,2,3")
    return [int(word) for word in words]


def _check_stage(stage: str, workers: int, on: str) -> None:
    stages = [name for name in load_params(PIPELINE)["stages"] if name not in ("download", "vocab")]
    if stage not in stages:
        raise InputError(f"--to {stage}; allowed: {' | '.join(stages)}")
    if stage in plan.TIMED and (workers > 1 or on != "local"):
        raise InputError(
            f"--to {stage} measures times, which runs beside it disturb; allowed: with --workers 1, locally"
        )


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
    return {"cpus_per_task": threads, "timeout_min": int(minutes), "slurm_additional_parameters": more}


def begin(
    values: list[str],
    seeds: str | None,
    name: str | None,
    stage: str,
    workers: int,
    on: str,
    memory_gib: float | None,
    factor: int | None,
) -> Sweep:
    """Write a new sweep into its folder. Raises InputError, and writes nothing, if none of its runs could begin."""
    _check_stage(stage, workers, on)
    if Path(git("rev-parse", "--show-toplevel")).resolve() != Path.cwd():
        raise InputError(f"{Path.cwd()}: not the folder of a git repository, whose root a sweep needs; cd there")
    axes, base = expanded(values), Path(PARAMS_FILE).read_text(encoding="utf-8")
    runs = plan.product(axes, _seeds(seeds))
    if (not values and not seeds) or len(runs) > MOST:
        raise InputError(
            f"{len(runs)} runs; allowed: values to try, -S KEY=VALUE,VALUE or --seeds N,N, at most {MOST} runs"
        )
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
        memory_gib = round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30 / workers, 1)
    baseline, commit = freeze(chosen, folder.absolute() / "index")
    sweep = Sweep(chosen, baseline, commit, stage, runs, problems, memory_gib, rule, trials)
    for number, said in problems.items():
        sweep.end(int(number), state=plan.FAILED, why=said)
        print(f"run {number} ({sweep.label(int(number))}): {said}", flush=True)
    write_json(folder / "sweep.json", vars(sweep))
    return sweep
