"""Stage seed_train: stage train with another seed, without samples, `python -m stages.seed_train 2`."""

import contextlib
import dataclasses
import sys
from typing import Any

from tinylm.base import paths
from tinylm.base.config import PARAMS_FILE, InputError, read_section
from tinylm.base.files import write_json, write_sums
from tinylm.host.command import guard
from tinylm.host.params import stage_params
from tinylm.host.processes import check_writable, exclusive_lock
from tinylm.host.runtime import RuntimeSettings
from tinylm.host.times import write_times
from tinylm.model.checkpoint import save_model
from tinylm.model.settings import ModelSettings
from tinylm.train.curves import run_figures
from tinylm.train.distributed import Group
from tinylm.train.loop import train
from tinylm.train.preparation import TOKENIZER, prepare
from tinylm.train.ranks import in_ranks
from tinylm.train.settings import TrainSettings
from tinylm.vocab.tokenizer import open_tokenizer


def chosen(arguments: list[str], first: int) -> int:
    """The one argument as a seed other than stage train's. Raises InputError."""
    if len(arguments) != 1 or not arguments[0].isdecimal():
        given = " ".join(arguments) or "nothing"
        raise InputError(
            f"stages.seed_train: argument {given}; allowed: one seed, a whole number >= 0"
        )
    if int(arguments[0]) == first:
        raise InputError(
            f"{PARAMS_FILE}: seeds.more names {first}; allowed: seeds other than train.seed = {first}"
        )
    return int(arguments[0])


def main() -> None:
    params = stage_params()
    settings = read_section(params, "train", TrainSettings)
    settings = dataclasses.replace(
        settings, seed=chosen(sys.argv[1:], settings.seed), keep_epochs=()
    )
    in_ranks(settings.processes, lambda group: fit(group, params, settings))


def fit(group: Group, params: dict[str, Any], settings: TrainSettings) -> None:
    """What each process of the run does; rank 0 writes all files."""
    runtime = read_section(params, "runtime", RuntimeSettings)
    seed, folder = settings.seed, paths.seed_run(settings.seed)
    if group.is_rank0:
        check_writable(paths.RUNS, folder)
    model_settings = read_section(params, "model", ModelSettings)
    ready = prepare(
        group,
        open_tokenizer(TOKENIZER),
        model_settings,
        settings,
        runtime,
        f"{paths.RUNS}/seeds/{seed}",
        "stages/seed_train.py",
    )
    made, every_s, snapshots = ready.made, runtime.log_every_s, ready.snapshots
    with contextlib.ExitStack() as held:
        if group.is_rank0:
            held.enter_context(
                exclusive_lock(f"{paths.RUNS}/seed_{seed}.lock", f"training with seed {seed}")
            )
        run = made.model, made.batches, made.held_out, ready.train
        result = train(*run, log_every_s=every_s, snapshots=snapshots, group=group)
        if not group.is_rank0:
            return
        save_model(folder, made.model, **ready.saved_with())
        figures = run_figures(result, made.batches)
        write_json(f"{folder}/run.json", {"figures": figures, "held_out": result.curves.held_out})
        write_sums(folder)
        timing = {**result.timing(), "conditions": ready.measured_on}
        write_times(f"seed_{seed}", "seed_train", f"{folder}/run.json", timing)
        snapshots.finish()
    print(
        f"seed {seed}: held-out perplexity {figures['held_out_perplexity']:.3f} after {figures['tokens']:,} tokens"
    )


if __name__ == "__main__":
    sys.exit(guard(main))
