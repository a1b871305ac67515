"""About how long the training of a run takes on this machine: its operations, counted, over a measured speed."""

import math
import time
from typing import Any

from tinylm.cli.describe import blank_model
from tinylm.host.params import Sections
from tinylm.model.describe import summary
from tinylm.train.precision import resolved

SHARE = 0.35  # of the speed of the feed-forward layers' product that a whole update reaches
MEASURED_S, MOST_ROWS = 0.2, 8192


def products_per_s(
    rows: int, width: int, columns: int, precision: str, device: Any, threads: int
) -> float:
    """Operations per second of the feed-forward layers' product, (rows, width) by (columns, width): the fastest seen.

    The fastest, since what else runs on the machine now may have ended when the run starts.
    """
    import torch

    torch.set_num_threads(threads)
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    inputs, weights = (
        torch.ones(shape, dtype=kind, device=device) for shape in ((rows, width), (columns, width))
    )
    best, begun = math.inf, time.perf_counter()
    while (start := time.perf_counter()) < begun + MEASURED_S or math.isinf(best):
        float(
            torch.nn.functional.linear(inputs, weights)[0, 0]
        )  # a number: what is asked for is also done
        best = min(best, time.perf_counter() - start)
    return 2 * rows * width * columns / best


def training_tokens(read: Sections, tokens_per_epoch: int | None) -> int | None:
    """Tokens that the stages train, seed_train and accum_run see in all; None if the budget is in unknown epochs."""
    train, sweep = read["train"], read["accum_sweep"]
    if train.tokens is None and tokens_per_epoch is None:
        return None
    own = train.budget(tokens_per_epoch or 0)[1]
    return own * (1 + len(read["seeds"].more)) + sweep.tokens * len(sweep.settings)


def training_seconds(read: Sections, vocab_size: int, tokens: int, device: Any) -> float:
    """About how long training on so many tokens takes here."""
    model, width = read["model"], read["embedding"].width
    train = resolved(read["train"], device)
    count = (
        tokens
        * summary(blank_model(model, vocab_size, width, train.recompute))["training_flop_per_token"]
    )
    shape = min(train.batch_size * model.context, MOST_ROWS), width, model.feed_forward
    speed = products_per_s(*shape, train.precision, device, read["runtime"].threads)
    return count / (SHARE * speed)
