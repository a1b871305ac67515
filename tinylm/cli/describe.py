"""Print the model that params.yaml describes: its parts, parameters, memory and operations.

It needs the vocabulary of these parameters, which `dvc repro vocab` writes.
"""

import argparse

from tinylm.base import paths
from tinylm.base.config import load_params, read_section
from tinylm.base.files import require

EXAMPLES = "  dvc repro vocab && tinylm describe\n"
MIB = 2**20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are none."""


def run(arguments: argparse.Namespace) -> None:
    """Print the table of parts, then totals."""
    import torch

    from tinylm.base.machine import pick_device
    from tinylm.base.runtime import RuntimeSettings
    from tinylm.base.tables import print_description
    from tinylm.model.checkpoint import new_model
    from tinylm.model.describe import describe, summary
    from tinylm.model.settings import ModelSettings
    from tinylm.run.finished_run import read_run
    from tinylm.train.settings import TrainSettings
    from tinylm.vocab.embedding.settings import EmbeddingSettings
    from tinylm.vocab.open_tokenizer import open_tokenizer

    params = load_params()
    made_by = ["download", "vocab"]
    read_run(".", params, stages=made_by).refuse_mixed(made_by, sections=["data", "vocab"])
    settings = read_section(params, "model", ModelSettings)
    runtime = read_section(params, "runtime", RuntimeSettings)
    train = read_section(params, "train", TrainSettings)
    train = train.resolved(pick_device(runtime.device))
    vocab_size = len(open_tokenizer(require(paths.TOKENIZER, "vocab")))
    width = read_section(params, "embedding", EmbeddingSettings).width
    with torch.device("meta"):  # shapes, whose tensors take no memory
        model = new_model(settings, torch.empty(vocab_size, width))
    totals = summary(model, train.optimizer)
    weights = totals["weight_bytes"] / MIB
    training = weights + (totals["gradient_bytes"] + totals["optimizer_bytes"]) / MIB
    cache = totals["kv_cache_bytes_per_row"] / MIB
    tokens = train.batch_size * settings.context
    flop = tokens * totals["training_flop_per_token"]
    trained = totals["parameters_trainable"]
    print_description(describe(model))
    print(f"{trained:,} parameters are trained; weights are initialised with init: {settings.init}")
    print(f"{weights:,.1f} MiB of weights")
    print(f"{training:,.1f} MiB with gradients and {train.optimizer}")
    print(f"{cache:,.1f} MiB of KV cache per row of {settings.context} tokens")
    print(f"{flop:.3g} operations in a mini-batch of {tokens:,} tokens, in {train.precision}")
