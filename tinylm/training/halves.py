"""Who computes an update: all threads together, or two halves of them on half of the rows each.

Threads that share out every single operation meet some 300 times in an update, and as soon as another process takes a
core, all of them wait there for the one that has lost it. Two halves meet three times. Each computes its rows' gradient
on a twin of the model, which has the model's weights and gradients of its own; the two are then added, and the parts of
the optimizers' step go to whichever half is free. No result depends on which half is faster.
"""

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn

from tinylm.kernels.training.dropout import drawing_from
from tinylm.kernels.training.ops import Native
from tinylm.model.transformer import TinyLM
from tinylm.text.tokens.batches import Batch
from tinylm.training.settings import TrainSettings

T = TypeVar("T")
Accumulate = Callable[[TinyLM, Sequence[Batch], str, int], tuple[float, int]]  # `trainer.accumulate_gradients`
Inside = Callable[[Callable[[], object]], object]  # runs a function in a certain Python thread


class Workers(Protocol):
    """Who computes a model's updates."""

    def gradients(self, batches: Sequence[Batch], precision: str, total: int) -> float:
        """Add the gradient of all mini-batches' loss over `total` tokens; returns the sum of nats."""

    def do(self, parts: Sequence[Callable[[], T]]) -> list[T]:
        """Do all parts, which change different tensors; their results in order."""

    def threads(self) -> list[Inside]:
        """The Python threads that compute: each runs a function and waits for it."""


class Together:
    """All threads share out each operation."""

    def __init__(self, model: TinyLM, accumulate: Accumulate) -> None:
        self.model, self.accumulate = model, accumulate

    def gradients(self, batches: Sequence[Batch], precision: str, total: int) -> float:
        return self.accumulate(self.model, batches, precision, total)[0]

    def do(self, parts: Sequence[Callable[[], T]]) -> list[T]:
        return [part() for part in parts]

    def threads(self) -> list[Inside]:
        return [lambda function: function()]


class Halves:
    """Two Python threads with half of torch's threads each; torch's operations let both run at once.

    Dropout's numbers follow from the state of torch's generator, and from the half that draws them.
    """

    def __init__(self, model: TinyLM, accumulate: Accumulate) -> None:
        self.model, self.twin, self.accumulate = model, _twin(model), accumulate
        self.count = torch.get_num_threads()
        fewer = self.count // 2
        self.second = ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(fewer,))

    def gradients(self, batches: Sequence[Batch], precision: str, total: int) -> float:
        halves = zip(*map(_in_two, batches), strict=True)
        drops = self.model.settings.dropout > 0
        seeds = torch.randint(1 << 62, (2,)).tolist() if drops else [0, 0]

        def compute(model: TinyLM, rows: Sequence[Batch], seed: int) -> float:
            with drawing_from(seed):
                return self.accumulate(model, [batch for batch in rows if len(batch.inputs)], precision, total)[0]

        of_each = zip((self.model, self.twin), halves, seeds, strict=True)
        nats = self._both(*(partial(compute, *own) for own in of_each))
        pairs = zip(self.model.parameters(), self.twin.parameters(), strict=True)
        self.do([partial(_add, *pair) for pair in pairs])
        return sum(nats)

    def do(self, parts: Sequence[Callable[[], T]]) -> list[T]:
        results: list[T | None] = [None] * len(parts)
        left = enumerate(parts)  # both take from it: next() of an enumerate is one step to other threads

        def work() -> None:
            for number, part in left:
                results[number] = part()

        self._both(work, work)
        return results  # type: ignore[return-value]

    def threads(self) -> list[Inside]:
        return [lambda function: function(), lambda function: self.second.submit(function).result()]

    def _both(self, first: Callable[[], T], second: Callable[[], T]) -> tuple[T, T]:
        """Both at once, the first here. If one fails, the other ends before its error is raised."""
        waiting = self.second.submit(second)
        torch.set_num_threads(self.count - self.count // 2)
        try:
            mine = first()
        finally:
            torch.set_num_threads(self.count)
            waiting.exception()  # waits
        return mine, waiting.result()


def sharing(model: TinyLM, settings: TrainSettings, accumulate: Accumulate) -> Workers:
    """Halves if nothing but native kernels computes the model, on two threads or more; else all threads together.

    What torch drops, recomputes and compiles depends on state that all Python threads share.
    """
    alone = settings.attention == "own" and settings.recompute == "none" and settings.compile == "false"
    native = isinstance(model.ops, Native) and settings.precision == "bf16"
    kind = Halves if native and alone and torch.get_num_threads() > 1 else Together
    return kind(model, accumulate)


def _twin(model: TinyLM) -> TinyLM:
    """A second model over the same weights, with gradients of its own."""
    shared: dict[int, Tensor] = {id(p): nn.Parameter(p.detach(), p.requires_grad) for p in model.parameters()}
    return copy.deepcopy(model, shared | {id(buffer): buffer for buffer in model.buffers()})


def _in_two(batch: Batch) -> tuple[Batch, Batch]:
    """The first half of the rows, and the rest; of a single row the first is all of it."""
    middle = -(-len(batch.inputs) // 2)
    first, second = (
        (batch.inputs[rows], batch.targets[rows]) for rows in (slice(middle), slice(middle, len(batch.inputs)))
    )
    return Batch(*first, int((first[1] >= 0).sum())), Batch(*second, int((second[1] >= 0).sum()))


def _add(parameter: Tensor, twin: Tensor) -> None:
    """Move the twin's gradient into the parameter's."""
    if twin.grad is not None:
        parameter.grad = twin.grad if parameter.grad is None else parameter.grad.add_(twin.grad)
        twin.grad = None
