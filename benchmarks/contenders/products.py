"""The processor's limit: a training step's matrix products, without anything else.

Nobody's program: the products of the linear layers alone, forward and backward, by the fastest library at hand. The rows are
divided among the cores, as in training.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.frame import Setup, Step, seconds
from benchmarks.shape import Shape, untrained
from tinylm.kernels.train.linear import fast_linear
from tinylm.model.describe import summary
from tinylm.train.cores import map_on_cores

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


def _layers(shape: Shape) -> Iterator[tuple[int, int]]:
    """(inputs, outputs) of each linear layer: queries, keys and values; output; feed-forward; logits."""
    for _ in range(shape.layers):
        yield shape.width, 3 * shape.width
        yield shape.width, shape.width
        yield shape.width, shape.feed_forward
        yield shape.feed_forward, shape.width
    yield shape.width, shape.vocab


def _product(rows: int, inputs: int, outputs: int, dtype: torch.dtype) -> Callable[[], object]:
    """A layer's three products: y = x W^T, dx = dy W and dW = dy^T x."""
    x, y = torch.randn(rows, inputs).to(dtype), torch.randn(rows, outputs).to(dtype)
    weight = torch.randn(outputs, inputs).to(dtype)

    def multiply() -> tuple[Tensor, Tensor, Tensor]:
        return fast_linear(x, weight), fast_linear(y, weight.T), y.T @ x

    return multiply


def limit(setup: Setup) -> Step:
    """{seconds, tokens} of a step that costs its operations at the rate of these products; attention's count too.

    setup: shape, threads, precision.
    """
    shape = Shape(**setup["shape"])
    threads = setup["threads"]
    torch.set_num_threads(threads)
    rows = shape.step_tokens // threads
    dtype = DTYPES[setup["precision"]]
    make = partial(_product, rows, dtype=dtype)
    shares = [[make(*layer) for layer in _layers(shape)] for _ in range(threads)]
    flop = 3 * 2 * rows * threads * sum(inputs * outputs for inputs, outputs in _layers(shape))
    flop_per_token = summary(untrained(shape))["training_flop_per_token"]

    def step(request: Mapping[str, Any]) -> dict[str, Any]:
        def update() -> list[object]:
            return map_on_cores(lambda share: [multiply() for multiply in share], shares, threads)

        updates = request["updates"]
        taken = seconds(lambda: [update() for _ in range(updates)])
        return {"seconds": taken, "tokens": updates * flop / flop_per_token}

    return step
