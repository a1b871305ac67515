"""tinylm describe: the model that params.yaml and the vocabulary give, before it is trained."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tinylm.base import paths
from tinylm.base.config import InputError, load_params, read_section
from tinylm.cli.command import PARAMS, Command

if TYPE_CHECKING:
    from tinylm.model.settings import ModelSettings
    from tinylm.model.transformer import TinyLM

MIB = 2**20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument(
        "--vocab", default=paths.TOKENIZER, metavar="FILE", help="tokenizer (default %(default)s)"
    )
    parser.add_argument(
        "--vocab-size", type=int, metavar="V", help="number of ids, instead of the tokenizer's"
    )
    parser.add_argument(
        "--width", type=int, metavar="D", help="width, instead of embedding.width of params.yaml"
    )


def blank_model(
    settings: "ModelSettings", vocab_size: int, width: int, recompute: str = "none"
) -> "TinyLM":
    """A model that has shapes but whose tensors take no memory.

    Raises InputError if settings and width do not fit.
    """
    import torch

    from tinylm.model.checkpoint import new_model
    from tinylm.model.recompute import RunRecomputing

    with torch.device("meta"):
        return new_model(
            settings, torch.empty(vocab_size, width), run_blocks=RunRecomputing(recompute)
        )


def _vocab_size(arguments: argparse.Namespace) -> int:
    from tinylm.vocab.tokenizer import open_tokenizer

    size: int | None = arguments.vocab_size
    if size is None:
        if not Path(arguments.vocab).exists():
            raise InputError(
                f"{arguments.vocab} is missing: run dvc repro vocab, or give --vocab-size"
            )
        return len(open_tokenizer(arguments.vocab))
    if not 1 <= size <= 100_000_000:
        raise InputError(f"--vocab-size {size}; allowed: 1 to 100,000,000")
    return size


def _width(arguments: argparse.Namespace, params: dict[str, Any]) -> int:
    from tinylm.embedding.settings import EmbeddingSettings

    width: int | None = arguments.width
    if width is None:
        return read_section(params, "embedding", EmbeddingSettings).width
    if not 1 <= width <= 65536:
        raise InputError(f"--width {width}; allowed: 1 to 65536")
    return width


def run(arguments: argparse.Namespace) -> None:
    """Print the table of parts, then totals."""
    from tinylm.base.machine import pick_device
    from tinylm.host.runtime import RuntimeSettings
    from tinylm.host.tables import format_description
    from tinylm.model.describe import describe, summary
    from tinylm.model.settings import ModelSettings
    from tinylm.train.precision import resolved
    from tinylm.train.settings import TrainSettings

    params = load_params()
    settings = read_section(params, "model", ModelSettings)
    runtime = read_section(params, "runtime", RuntimeSettings)
    train = resolved(read_section(params, "train", TrainSettings), pick_device(runtime.device))
    vocab_size = _vocab_size(arguments)
    width = _width(arguments, params)
    model = blank_model(settings, vocab_size, width, train.recompute)
    print(format_description(describe(model)))
    totals = summary(model, train.optimizer)
    weights = totals["weight_bytes"] / MIB
    training = weights + (totals["gradient_bytes"] + totals["optimizer_bytes"]) / MIB
    cache = totals["kv_cache_bytes_per_row"] / MIB
    tokens = train.batch_size * settings.context
    flop = tokens * totals["training_flop_per_token"]
    print(
        f"\n{totals['parameters_trainable']:,} parameters are trained; "
        f"weights start as in init: {settings.init}"
    )
    print(
        f"{weights:,.1f} MiB of weights, {training:,.1f} MiB with gradients and {train.optimizer}"
    )
    print(f"{cache:,.1f} MiB of KV cache a row of {settings.context} tokens")
    print(f"{flop:.3g} operations in a mini-batch of {tokens:,} tokens, in {train.precision}")


COMMAND = Command(
    name="describe",
    purpose="print the model that params.yaml gives: parts, shapes, parameters, operations",
    needs=PARAMS,
    add_arguments=add_arguments,
    run=run,
    examples="""\
  tinylm describe                                   after `dvc repro vocab`
  tinylm describe --vocab-size 15000 --width 300
""",
)
