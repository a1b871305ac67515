"""The processor's limit: the matrix products of a training step, and nothing else.

No program trains this fast. Only the products of the linear layers are computed, forward and backward, with the libraries that
training uses. As in training, the rows are divided among the cores.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from benchmarks.frame import Setup, Step, seconds
from benchmarks.shape import Shape, untrained
from tinylm.kernels.train.linear import fast_linear
from tinylm.model.describe import summary
from tinylm.train.cores import MAX_THREADS, map_on_cores
from tinylm.train.preparation import prepare_process

CPU = torch.device("cpu")
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


def _layers(shape: Shape) -> Iterator[tuple[int, int]]:
    """(inputs, outputs) of each linear layer: queries, keys and values; output; feed-forward; logits."""
    for _ in range(shape.layers):
        yield shape.width, 3 * shape.width
        yield shape.width, shape.width
        yield shape.width, shape.feed_forward
        yield shape.feed_forward, shape.width
    yield shape.width, shape.vocab


def _flop_per_token(shape: Shape) -> float:
    """Operations of a training step. Attention counts by half: half of the scores are of later tokens, and not computed."""
    counted = summary(untrained(shape))
    skipped = 3 * counted["attention_flop_per_token"] / 2
    return float(counted["training_flop_per_token"] - skipped)


def limit(setup: Setup) -> Step:
    """Answers {seconds, tokens}.

    tokens: what a training step would process in this time if all its operations, including attention's, were as fast as these
    products. setup: shape, threads, precision.
    """
    shape = Shape(**setup["shape"])
    torch.set_num_threads(setup["threads"])
    prepare_process(setup["precision"], CPU)
    dtype = DTYPES[setup["precision"]]
    count = min(setup["threads"], MAX_THREADS, shape.batch)
    rows = shape.step_tokens // count
    weights = [torch.randn(outputs, inputs).to(dtype) for inputs, outputs in _layers(shape)]

    def share() -> list[tuple[Tensor, Tensor, Tensor]]:
        """A core's (x, y, W) of each layer; the random y stands for dy."""
        return [
            (
                torch.randn(rows, len(weight.T)).to(dtype),
                torch.randn(rows, len(weight)).to(dtype),
                weight,
            )
            for weight in weights
        ]

    shares = [share() for _ in range(count)]
    products = 3 * 2 * rows * count * sum(inputs * outputs for inputs, outputs in _layers(shape))
    tokens = products / _flop_per_token(shape)

    def multiply(layers: list[tuple[Tensor, Tensor, Tensor]]) -> None:
        for x, y, weight in layers:
            fast_linear(x, weight)  # y = x W^T
            fast_linear(y, weight.T)  # dx = dy W
            torch.matmul(y.T, x)  # dW = dy^T x

    def step(request: Mapping[str, Any]) -> dict[str, Any]:
        updates = request["updates"]
        taken = seconds(lambda: [map_on_cores(multiply, shares, count) for _ in range(updates)])
        return {"seconds": taken, "tokens": updates * tokens}

    return step
