"""Stage train: fit the model to the train split; write weights, curves, and samples written during training."""

import contextlib
import sys
import time
from typing import Any

from tinylm.base import paths
from tinylm.base.config import PARAMS_FILE, read_section
from tinylm.base.files import write_sums
from tinylm.base.printable import visible
from tinylm.base.results import write_results
from tinylm.decoding.settings import DecodeSettings
from tinylm.decoding.texts import encode_prompt, generate_text
from tinylm.host.command import guard
from tinylm.host.loggers import open_logger
from tinylm.host.params import stage_params
from tinylm.host.processes import check_writable, exclusive_lock
from tinylm.host.runtime import RuntimeSettings
from tinylm.host.tables import format_description
from tinylm.host.times import stage_time
from tinylm.model.checkpoint import save_model
from tinylm.model.describe import describe, summary
from tinylm.model.settings import ModelSettings
from tinylm.train.curves import run_figures, write_curves, write_samples
from tinylm.train.distributed import Group
from tinylm.train.loop import train
from tinylm.train.preparation import TOKENIZER, prepare
from tinylm.train.ranks import in_ranks
from tinylm.train.settings import TrainSettings
from tinylm.vocab.tokenizer import open_tokenizer

SAMPLES, LENGTH = (
    20,
    60,
)  # texts at a time, of which one is shown and all are graded where that can be done
SAMPLING = DecodeSettings(temperature=0.7, top_k=40)  # fixed


def main() -> None:
    params = stage_params()
    settings = read_section(params, "train", TrainSettings)
    in_ranks(settings.processes, lambda group: fit(group, params, settings))


def fit(group: Group, params: dict[str, Any], settings: TrainSettings) -> None:
    """What each process of the run does; rank 0 writes all files."""
    start = time.perf_counter()
    runtime = read_section(params, "runtime", RuntimeSettings)
    if group.is_rank0:
        check_writable(paths.RUNS, paths.MODELS, paths.METRICS, paths.PLOTS)
    tokenizer, model_settings = (
        open_tokenizer(TOKENIZER),
        read_section(params, "model", ModelSettings),
    )
    encode_prompt(tokenizer, settings.sample_prompt, f"{PARAMS_FILE}: train.sample_prompt")
    ready = prepare(
        group, tokenizer, model_settings, settings, runtime, paths.TRAIN_RUN, "stages/train.py"
    )
    model, batches, settings = ready.made.model, ready.made.batches, ready.train
    print(ready.said())
    print(format_description(describe(model)))

    def sample(_: int, tokens: int) -> list[str]:
        texts = generate_text(
            model, tokenizer, SAMPLES * [settings.sample_prompt], SAMPLING, max_new_tokens=LENGTH
        )
        print(f"sample after {tokens:,} tokens: {visible(texts[0])}")
        return texts

    logged = {
        f"{name}.{key}": value for name in ("model", "train") for key, value in params[name].items()
    }
    with contextlib.ExitStack() as held:
        logger = None
        if group.is_rank0:
            held.enter_context(exclusive_lock(paths.TRAIN_LOCK, "training"))
            logger = held.enter_context(
                open_logger(runtime.logger, paths.RUNS, runtime.log_every_s, logged)
            )
        result = train(
            model,
            batches,
            ready.made.held_out,
            settings,
            log_every_s=runtime.log_every_s,
            on_sample=sample,
            snapshots=ready.snapshots,
            logger=logger,
            group=group,
        )
        if not group.is_rank0:
            return
        save_model(paths.MODELS, model, **ready.saved_with())
        ready.snapshots.copy_kept(paths.MODELS)
        write_samples(paths.MODEL_SAMPLES, result.curves, settings.sample_prompt)
        write_sums(paths.MODELS)
        write_curves(paths.PLOTS, result.curves)
        figures = summary(model, settings.optimizer) | run_figures(result, batches)
        chosen = {key: getattr(settings, key) for key in ("seed", "precision", "compile")}
        figures = chosen | figures
        write_results(
            "train",
            figures,
            held_out=figures["held_out_perplexity"],
            parameters=figures["parameters"],
        )
        stage_time("train", start - result.earlier_s, ready.measured_on, result.timing())
        ready.snapshots.finish()


if __name__ == "__main__":
    sys.exit(guard(main))
