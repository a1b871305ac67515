"""tinylm describe: the model that params.yaml and the vocabulary give, before it is trained."""

import argparse
from pathlib import Path

from tinylm.base.config import InputError, load_params, read_section
from tinylm.base.machine import pick_device
from tinylm.bench.traffic import format_traffic, update_traffic
from tinylm.embedding.settings import EmbeddingSettings
from tinylm.host.runtime import RuntimeSettings
from tinylm.host.tables import format_description
from tinylm.model.checkpoint import new_model
from tinylm.model.describe import describe, summary
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import TinyLM
from tinylm.train.precision import resolved
from tinylm.train.settings import TrainSettings
from tinylm.vocab.tokenizer import open_tokenizer


def blank_model(
    settings: ModelSettings, vocab_size: int, width: int, recompute: str = "none"
) -> TinyLM:
    """A model that has shapes but whose tensors take no memory. Raises InputError if settings and width do not fit."""
    import torch

    from tinylm.model.recompute import RunRecomputing

    with torch.device("meta"):
        return new_model(
            settings, torch.empty(vocab_size, width), run_blocks=RunRecomputing(recompute)
        )


def _vocab_size(arguments: argparse.Namespace) -> int:
    size = arguments.vocab_size
    if size is None:
        if not Path(arguments.vocab).exists():
            raise InputError(
                f"{arguments.vocab} is missing: run dvc repro vocab, or give --vocab-size"
            )
        return len(open_tokenizer(arguments.vocab))
    if not 1 <= size <= 100_000_000:
        raise InputError(f"--vocab-size {size}; allowed: 1 to 100,000,000")
    return size


def _width(arguments: argparse.Namespace, params: dict) -> int:
    if arguments.width is None:
        return read_section(params, "embedding", EmbeddingSettings).width
    if not 1 <= arguments.width <= 65536:
        raise InputError(f"--width {arguments.width}; allowed: 1 to 65536")
    return arguments.width


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"


def run(arguments: argparse.Namespace) -> None:
    """Print the table of parts, then totals; with --times each part measured."""
    params = load_params()
    settings = read_section(params, "model", ModelSettings)
    runtime = read_section(params, "runtime", RuntimeSettings)
    device = pick_device(runtime.device)
    train = resolved(read_section(params, "train", TrainSettings), device)  # what `auto` means here
    size, width = _vocab_size(arguments), _width(arguments, params)
    model = blank_model(settings, size, width, train.recompute)
    print(format_description(describe(model)))
    totals = summary(model, train.optimizer)
    training = totals["weight_bytes"] + totals["gradient_bytes"] + totals["optimizer_bytes"]
    cache = totals["kv_cache_bytes_per_row"]
    print(
        f"\n{totals['parameters_trainable']:,} parameters are trained; weights start as in init: {settings.init}"
    )
    print(
        f"{_mib(totals['weight_bytes'])} of weights, {_mib(training)} with gradients and {train.optimizer}"
    )
    print(f"{_mib(cache)} of KV cache a row of {settings.context} tokens")
    tokens = train.batch_size * settings.context
    print(
        f"\nan update (one mini-batch) of {tokens:,} tokens in {train.precision} computes and moves"
    )
    print(format_traffic(update_traffic(model, tokens, train.optimizer, train.precision)))
    if arguments.times:
        from tinylm.base.seeding import seed_everything
        from tinylm.bench.part_times import TRIALS, format_times, part_times

        seed_everything(train.seed, runtime.threads)
        print(
            f"\nmeasured on {device.type} with {runtime.threads} threads: a mini-batch of {tokens:,} tokens in "
            f"{train.precision}, forward and backward, all blocks; median and spread of {TRIALS} interleaved trials"
        )
        print(
            format_times(
                part_times(settings, size, width, train.batch_size, train.precision, device)
            )
        )
