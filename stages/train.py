"""Stage train: fit the model to the train split; write weights, curves and the samples it wrote on the way."""

import sys
import time

import torch

from tinylm.command import guard, stage_time
from tinylm.config import PARAMS_FILE, read_section
from tinylm.decoding.settings import DecodeSettings
from tinylm.decoding.texts import encode_prompt, generate_text
from tinylm.files import sha256, write_json, write_sums
from tinylm.model.describe import describe, format_description, summary
from tinylm.model.lm import ModelSettings
from tinylm.model.storage import save_model
from tinylm.processes import check_writable, exclusive_lock
from tinylm.runtime import RuntimeSettings, conditions, pick_device, same_bytes_need, visible
from tinylm.sections import stage_params
from tinylm.text.matrix_file import load_matrix
from tinylm.text.token_store import TokenStore
from tinylm.text.tokens.tokenizer import open_tokenizer
from tinylm.training.assembly import assemble
from tinylm.training.curves import run_figures, write_curves, write_samples
from tinylm.training.loggers import open_logger
from tinylm.training.loop import train
from tinylm.training.precision import resolved
from tinylm.training.snapshot import Snapshots, fingerprint
from tinylm.training.trainer import TrainSettings

SAMPLE_TOKENS = 60
TOKENS = [f"data/tokens/{split}.{kind}" for split in ("train", "held_out") for kind in ("ids", "offsets")]
DATA = ["data/vocab/tokenizer.json", "data/vocab/embedding.safetensors", *TOKENS]
CODE = ["stages/train.py", "tinylm/model", "tinylm/training", "tinylm/decoding", "tinylm/text/batches.py"]
SAMPLING = DecodeSettings(0.7, None, 40, 1.0, 0.0, 0.9, 1.0, None, "half", 0.0, 1)  # fixed: samples of runs compare


def main() -> None:
    start = time.perf_counter()
    params = stage_params()
    model_settings = read_section(params, "model", ModelSettings)
    runtime = read_section(params, "runtime", RuntimeSettings)
    device = pick_device(runtime.device)
    settings = resolved(read_section(params, "train", TrainSettings), device)
    print(f"precision: {settings.precision}")
    check_writable("runs", "models", "metrics", "plots")
    tokenizer = open_tokenizer("data/vocab/tokenizer.json")
    encode_prompt(tokenizer, settings.sample_prompt, f"{PARAMS_FILE}: train.sample_prompt")
    stores = {split: TokenStore("data/tokens", split) for split in ("train", "held_out")}
    matrix = torch.from_numpy(load_matrix("data/vocab/embedding.safetensors"))
    made = assemble(model_settings, settings, matrix, stores, tokenizer.pad_id, device, runtime.threads)
    model, batches = made.model, made.batches
    print(format_description(describe(model)))
    parts = fingerprint({"train": settings, "model": model_settings}, DATA, CODE)
    measured_on = conditions(device, runtime.threads)
    snapshots = Snapshots("runs/train", parts, runtime.snapshot_every_s, conditions=same_bytes_need(measured_on))

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
        write_samples("models/samples.json", result.curves)
        write_sums("models")
        write_curves("plots", result.curves)
        figures = summary(model, settings.optimizer) | run_figures(result, batches)
        write_json("metrics/train.json", {"seed": settings.seed, "precision": settings.precision, **figures})
        stage_time("train", start - result.earlier_s, measured_on, **result.timing())
        snapshots.finish()


if __name__ == "__main__":
    sys.exit(guard(main))
