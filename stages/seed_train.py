"""Stage seed_train: stage train with another seed, without samples, `python -m stages.seed_train 2`."""

import dataclasses
import sys

import torch

from tinylm.command import guard
from tinylm.config import PARAMS_FILE, InputError, read_section
from tinylm.files import sha256, write_json, write_sums
from tinylm.model.lm import ModelSettings
from tinylm.model.storage import save_model
from tinylm.processes import check_writable, exclusive_lock
from tinylm.runtime import RuntimeSettings, conditions, pick_device, same_bytes_need
from tinylm.sections import stage_params
from tinylm.text.matrix_file import load_matrix
from tinylm.text.token_store import TokenStore
from tinylm.text.tokens.tokenizer import open_tokenizer
from tinylm.training.assembly import assemble
from tinylm.training.curves import run_figures
from tinylm.training.loop import train
from tinylm.training.precision import resolved
from tinylm.training.snapshot import Snapshots, fingerprint
from tinylm.training.trainer import TrainSettings

SPLITS = ("train", "held_out")
DATA = [
    "data/vocab/tokenizer.json",
    "data/vocab/embedding.safetensors",
    *(f"data/tokens/{split}.{kind}" for split in SPLITS for kind in ("ids", "offsets")),
]
CODE = ["stages/seed_train.py", "tinylm/model", "tinylm/training", "tinylm/text/batches.py"]


def chosen(arguments: list[str], first: int) -> int:
    """The one argument as a seed other than stage train's. Raises InputError."""
    if len(arguments) != 1 or not arguments[0].isdecimal():
        given = " ".join(arguments) or "nothing"
        raise InputError(f"stages.seed_train: argument {given}; allowed: one seed, a whole number >= 0")
    if int(arguments[0]) == first:
        raise InputError(f"{PARAMS_FILE}: seeds.more names {first}; allowed: seeds other than train.seed = {first}")
    return int(arguments[0])


def main() -> None:
    params = stage_params()
    settings = read_section(params, "train", TrainSettings)
    model_settings = read_section(params, "model", ModelSettings)
    runtime = read_section(params, "runtime", RuntimeSettings)
    seed = chosen(sys.argv[1:], settings.seed)
    settings = dataclasses.replace(settings, seed=seed, keep_epochs=())
    device = pick_device(runtime.device)
    settings = resolved(settings, device)
    check_writable("runs", f"data/seeds/{seed}")
    pad_id = open_tokenizer(DATA[0]).pad_id
    stores = {split: TokenStore("data/tokens", split) for split in SPLITS}
    matrix = torch.from_numpy(load_matrix(DATA[1]))
    made = assemble(model_settings, settings, matrix, stores, pad_id, device, runtime.threads)
    parts = fingerprint({"train": settings, "model": model_settings}, DATA, CODE)
    measured_on = conditions(device, runtime.threads)
    every_s = runtime.snapshot_every_s
    snapshots = Snapshots(f"runs/seeds/{seed}", parts, every_s, conditions=same_bytes_need(measured_on))
    with exclusive_lock(f"runs/seed_{seed}.lock", f"training with seed {seed}"):
        result = train(made.model, made.batches, made.held_out, settings, runtime.log_every_s, None, snapshots)
        save_model(f"data/seeds/{seed}", made.model, layout=settings.layout, tokenizer_sha256=sha256(DATA[0]))
        figures = run_figures(result, made.batches)
        write_json(f"data/seeds/{seed}/run.json", {"figures": figures, "held_out": result.curves.held_out})
        write_sums(f"data/seeds/{seed}")
        timing = {**result.timing(), "conditions": measured_on}
        write_json(f"data/seeds/{seed}/run_time.json", timing, sealed=True)
        snapshots.finish()
    print(f"seed {seed}: held-out perplexity {figures['held_out_perplexity']:.3f} after {figures['tokens']:,} tokens")


if __name__ == "__main__":
    sys.exit(guard(main))
