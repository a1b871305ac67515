"""Gradients on several cores: each thread computes the gradients of its own rows.

Each thread runs the whole model on its share of the rows, so the threads wait for each other once
per update, instead of after each of over a thousand operations. The gradient is the same sum over
rows, up to rounding.
"""

import copy
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from tinylm.model.thread_random import own_generator
from tinylm.model.transformer import TinyLM
from tinylm.train.cores import MAX_THREADS, cores, map_on_cores
from tinylm.vocab.batches import Batch

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
        can_divide = model.ops.draws_in_thread or model.settings.dropout == 0
        self._max_threads = min(rows, MAX_THREADS) if can_divide else 1

    def run(self, accumulate: Accumulate, batches: Sequence[Batch]) -> Tensor:
        """Add the gradients of all mini-batches to those of the model; returns the sum of nats."""
        count = cores(self._models[0].embedding.device, self._max_threads)
        if count == 1:
            return accumulate(self._models[0], list(batches))
        while len(self._models) < count:
            self._models.append(with_own_gradients(self._models[0]))
        seeds = torch.randint(1 << 62, (count,), device="cpu").tolist()

        def accumulate_share(index: int) -> Tensor:
            share = [batch.rows(index, count) for batch in batches]
            with own_generator(seeds[index]):
                return accumulate(self._models[index], [batch for batch in share if batch.tokens])

        nats, *others = map_on_cores(accumulate_share, range(count), count)
        for of_other in others:
            nats = nats + of_other
        for model in self._models[1:count]:
            self._move_gradients(model)
        return nats

    def _move_gradients(self, model: nn.Module) -> None:
        """Add the gradients of a thread's model to the first model's, and clear them."""
        sums = []
        pairs = zip(self._models[0].parameters(), model.parameters(), strict=True)
        for parameter, own in pairs:
            if parameter.grad is None:
                parameter.grad = own.grad
            elif own.grad is not None:
                sums.append((parameter.grad, own.grad))
            own.grad = None
        count = cores(self._models[0].embedding.device)
        map_on_cores(_add_to_first, sums, count, lambda pair: pair[0].numel())


def _add_to_first(pair: tuple[Tensor, Tensor]) -> None:
    total, addend = pair
    total.add_(addend)
