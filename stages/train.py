"""Stage train: fit the model to the train split; write weights, curves and the samples it wrote on the way."""

import os
import sys
import time

import torch

from tinylm.command import guard, stage_time
from tinylm.config import PARAMS_FILE, load_params, read_section
from tinylm.decoding.settings import DecodeSettings
from tinylm.decoding.texts import encode_prompt, generate_text
from tinylm.files import exclusive_lock, sha256, write_json
from tinylm.model.describe import describe, format_description, summary
from tinylm.model.lm import ModelSettings
from tinylm.model.storage import save_model
from tinylm.runtime import RuntimeSettings, conditions, pick_device, visible
from tinylm.text.matrix_file import load_matrix
from tinylm.text.token_store import TokenStore
from tinylm.text.tokens.tokenizer import open_tokenizer
from tinylm.training.assembly import assemble
from tinylm.training.curves import run_figures, write_curves
from tinylm.training.loggers import open_logger
from tinylm.training.loop import train
from tinylm.training.snapshot import Snapshots, fingerprint
from tinylm.training.trainer import TrainSettings

SAMPLE_TOKENS = 60
DATA = [
    "data/vocab/tokenizer.json",
    "data/vocab/embedding.safetensors",
    *(f"data/tokens/{split}.{kind}" for split in ("train", "held_out") for kind in ("ids", "offsets")),
]
CODE = ["stages/train.py", "tinylm/model", "tinylm/training", "tinylm/decoding", "tinylm/text/batches.py"]
# fixed, so that samples of different runs compare
SAMPLING = DecodeSettings(0.7, None, 40, 1.0, 0.0, 0.9, 1.0, None, "half", 0.0, 1)


def main() -> None:
    start = time.perf_counter()
    params = load_params()
    settings = read_section(params, "train", TrainSettings)
    model_settings = read_section(params, "model", ModelSettings)
    runtime = read_section(params, "runtime", RuntimeSettings)
    device = pick_device(runtime.device)
    tokenizer = open_tokenizer("data/vocab/tokenizer.json")
    encode_prompt(tokenizer, settings.sample_prompt, f"{PARAMS_FILE}: train.sample_prompt")
    stores = {split: TokenStore("data/tokens", split) for split in ("train", "held_out")}
    matrix = torch.from_numpy(load_matrix("data/vocab/embedding.safetensors"))
    made = assemble(model_settings, settings, matrix, stores, tokenizer.pad_id, device, runtime.threads)
    model, batches = made.model, made.batches
    print(format_description(describe(model)))
    parts = fingerprint({"train": settings, "model": model_settings}, DATA, CODE)
    snapshots = Snapshots("runs/train", parts, runtime.snapshot_every_s, os.environ.get("TINYLM_RESUME", "auto"))

    def sample(_: int, tokens: int) -> str:
        (text,) = generate_text(model, tokenizer, [settings.sample_prompt], SAMPLING, SAMPLE_TOKENS)
        print(f"sample after {tokens:,} tokens: {visible(text)}")
        return text

    logged = {f"{name}.{key}": value for name in ("model", "train") for key, value in params[name].items()}
    with (
        exclusive_lock("runs/train.lock", "training"),
        open_logger(runtime.logger, "runs", runtime.log_every_s, logged) as logger,
    ):
        result = train(model, batches, made.held_out, settings, runtime.log_every_s, sample, snapshots, logger)
        save_model("models", model, layout=settings.layout, tokenizer_sha256=sha256(DATA[0]))
        snapshots.copy_kept("models")
        samples = [dict(zip(("update", "tokens", "text"), sample, strict=True)) for sample in result.curves.samples]
        write_json("models/samples.json", samples)
        write_curves("plots", result.curves)
    figures = summary(model, settings.optimizer) | run_figures(result, batches)
    write_json("metrics/train.json", {"seed": settings.seed, **figures})
    timing = {"train_s": round(result.train_s, 3), "tokens_per_s": round(result.tokens / max(result.train_s, 1e-9), 1)}
    stage_time("train", start, conditions(device, runtime.threads), **timing)
    snapshots.clear()


if __name__ == "__main__":
    sys.exit(guard(main))
