"""Gradients on several cores: each thread computes the gradients of its own rows.

torch divides every operation among its threads, which wait for each other after each one: over a
thousand times per update. Here each thread runs the whole model on its share of the rows, and the
threads wait once per update. The gradient is the same sum over rows, up to rounding.
"""

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor, nn

from tinylm.model.thread_random import own_generator
from tinylm.model.transformer import TinyLM
from tinylm.vocab.batches import Batch

# More threads would need more memory for gradients, and would wait for Python's global lock.
MAX_THREADS = 4

# (model, mini-batches) -> summed loss in nats; adds to the gradients of the model's parameters
Accumulate = Callable[[TinyLM, list[Batch]], Tensor]


def with_own_gradients(model: TinyLM) -> TinyLM:
    """A model whose parameters share memory with those of `model`, but have their own gradients."""
    shared: dict[int, Tensor] = {id(buffer): buffer for buffer in model.buffers()}
    for parameter in model.parameters():
        shared[id(parameter)] = nn.Parameter(parameter.detach(), parameter.requires_grad)
    return copy.deepcopy(model, shared)


class RowThreads:
    """Computes the gradients of mini-batches of `rows` rows on at most MAX_THREADS threads.

    Results depend on the number of threads, but not on their timing: each has its own random
    numbers, and gradients are added in a fixed order. One thread does all the work on CUDA, and if
    dropout would draw from torch's generator, which all threads share.
    """

    def __init__(self, model: TinyLM, rows: int) -> None:
        self._models = [model]
        self._max_threads = 1
        can_divide = model.ops.draws_in_thread or model.settings.dropout == 0
        if can_divide and model.embedding.device.type == "cpu":
            self._max_threads = min(rows, MAX_THREADS)
        self._pool = ThreadPoolExecutor(self._max_threads)

    def run(self, accumulate: Accumulate, batches: Sequence[Batch]) -> Tensor:
        """Add the gradients of all mini-batches to those of the model; returns the sum of nats."""
        available = torch.get_num_threads()
        count = min(available, self._max_threads)
        if count == 1:
            return accumulate(self._models[0], list(batches))
        while len(self._models) < count:
            self._models.append(with_own_gradients(self._models[0]))
        seeds = torch.randint(1 << 62, (count,), device="cpu").tolist()

        def accumulate_share(index: int) -> Tensor:
            torch.set_num_threads(available // count)  # applies to this thread only
            share = [batch.rows(index, count) for batch in batches]
            with own_generator(seeds[index]):
                return accumulate(self._models[index], [batch for batch in share if batch.tokens])

        others = [self._pool.submit(accumulate_share, index) for index in range(1, count)]
        try:
            nats = accumulate_share(0)  # in this thread, the one that `CoreShare` watches
            for other in others:
                nats = nats + other.result()
        finally:
            torch.set_num_threads(available)
        for model in self._models[1:count]:
            self._move_gradients(model)
        return nats

    def _move_gradients(self, model: nn.Module) -> None:
        """Add the gradients of a thread's model to the first model's, and clear them."""
        totals, addends = [], []
        pairs = zip(self._models[0].parameters(), model.parameters(), strict=True)
        for parameter, own in pairs:
            if parameter.grad is None:
                parameter.grad = own.grad
            elif own.grad is not None:
                totals.append(parameter.grad)
                addends.append(own.grad)
            own.grad = None
        if totals:
            torch._foreach_add_(totals, addends)
