"""Who computes an update: all threads together, or two halves of them on half of the rows each.

Threads that share out every single operation meet some 300 times in an update, and as soon as another process takes a
core, all of them wait there for the one that has lost it. Two halves meet four times. First the weights of all matrix
products are converted to bfloat16, once for both. Each half computes its rows' gradient on a twin of the model, which
has gradients of its own; the two are then added, and the parts of the optimizers' step go to whichever half is free. No
result depends on which half is faster.
"""

import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol, TypeVar, cast

import torch
from torch import Tensor, nn

from tinylm.kernels.train.dropout import drawing_from
from tinylm.kernels.train.ops import Native
from tinylm.kernels.train.output_loss import PART_COLUMNS, fill_low, in_low, native_sum_up
from tinylm.model.transformer import TinyLM, block_matrices
from tinylm.train.optimizers import PIECE
from tinylm.train.settings import TrainSettings
from tinylm.vocab.batches import Batch

T = TypeVar("T")
BF16 = torch.bfloat16
Accumulate = Callable[
    [TinyLM, Sequence[Batch], str, int], tuple[float, int]
]  # `trainer.accumulate_gradients`
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

    The twins share all of the model's parameters but the blocks' matrices, which they have in bfloat16; so a gradient
    of these is as a product gives it, and becomes float32 when the two are added. Dropout's numbers follow from the
    state of torch's generator, and from the half that draws them.
    """

    @torch.no_grad()
    def __init__(self, model: TinyLM, accumulate: Accumulate) -> None:
        self.model, self.accumulate = model, accumulate
        low: dict[Tensor, Tensor] = {
            matrix: matrix.to(BF16) for matrix, _ in block_matrices(model).values()
        }
        weight, bias, _ = model.output_layer()
        low_weight = in_low(weight, bias, BF16)
        self.twins = tuple(_twin(model, low, low_weight) for _ in "ab")
        biases = itertools.repeat(None) if bias is None else bias.split(PART_COLUMNS)
        pieces = zip(
            low_weight.split(PART_COLUMNS), weight.split(PART_COLUMNS), biases, strict=False
        )
        self.conversions: list[Callable[[], object]] = [
            partial(fill_low, *piece) for piece in pieces
        ]
        self.conversions += [partial(mine.copy_, matrix.detach()) for matrix, mine in low.items()]
        self.count = torch.get_num_threads()
        fewer = self.count // 2
        self.second = ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(fewer,))

    def gradients(self, batches: Sequence[Batch], precision: str, total: int) -> float:
        self.do(self.conversions)
        return sum([self._add_gradients(batch, precision, total) for batch in batches])

    def _add_gradients(self, batch: Batch, precision: str, total: int) -> float:
        seeds = torch.randint(1 << 62, (2,)).tolist() if self.model.settings.dropout > 0 else [0, 0]

        def compute(twin: TinyLM, rows: Batch, seed: int) -> float:
            with drawing_from(seed):
                nats = self.accumulate(twin, [rows] if len(rows.inputs) else [], precision, total)[
                    0
                ]
            _join(twin)
            return nats

        nats = self._both(
            *(partial(compute, *own) for own in zip(self.twins, _in_two(batch), seeds, strict=True))
        )
        same = zip(
            self.model.parameters(), *(twin.parameters() for twin in self.twins), strict=True
        )
        self.do([part for parameter, *twins in same for part in _moves(parameter, twins)])
        return sum(nats)

    def do(self, parts: Sequence[Callable[[], T]]) -> list[T]:
        results: list[T | None] = [None] * len(parts)
        left = enumerate(
            parts
        )  # both take from it: next() of an enumerate is one step to other threads

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
    alone = (
        settings.attention == "own" and settings.recompute == "none" and settings.compile == "false"
    )
    native = isinstance(model.ops, Native) and settings.precision == "bf16"
    kind = Halves if native and alone and torch.get_num_threads() > 1 else Together
    return kind(model, accumulate)


def _twin(model: TinyLM, low: Mapping[Tensor, Tensor], low_weight: Tensor) -> TinyLM:
    """A model of the same parameters, but for those that are in `low`, with gradients of its own."""
    ops = cast(Native, copy.copy(model.ops))
    ops.low_weight = low_weight
    if model.output is None:
        ops.input_table = nn.Parameter(model.embedding.detach(), model.embedding.requires_grad)
    shared: dict[int, object] = {id(model.ops): ops} | {
        id(buffer): buffer for buffer in model.buffers()
    }
    shared |= {
        id(p): nn.Parameter(low.get(p, p.detach()), p.requires_grad) for p in model.parameters()
    }
    return copy.deepcopy(model, shared)


def _join(twin: TinyLM) -> None:
    """Add the gradient of the rows looked up to the output layer's, in place: autograd would copy all of that."""
    table = cast(Native, twin.ops).input_table
    if table is not None and table.grad is not None and twin.embedding.grad is not None:
        twin.embedding.grad += table.grad
        table.grad = None


def _in_two(batch: Batch) -> tuple[Batch, Batch]:
    """The first half of the rows, and the rest; of a single row the first is all of it."""
    middle = -(-len(batch.inputs) // 2)
    first, second = (
        (batch.inputs[rows], batch.targets[rows])
        for rows in (slice(middle), slice(middle, len(batch.inputs)))
    )
    return Batch(*first, int((first[1] >= 0).sum())), Batch(*second, int((second[1] >= 0).sum()))


def _moves(parameter: Tensor, twins: Sequence[Tensor]) -> list[Callable[[], None]]:
    """Move the twins' gradients into the parameter's, in parts."""
    grads = [twin.grad for twin in twins if twin.grad is not None]
    is_new = parameter.grad is None
    if not grads:
        return []
    for twin in twins:
        twin.grad = None
    if parameter.grad is None:
        parameter.grad = (
            grads.pop(0) if grads[0].dtype == parameter.dtype else torch.empty_like(parameter)
        )
    pieces = zip(*(grad.view(-1).split(PIECE) for grad in (parameter.grad, *grads)), strict=True)
    return [partial(_add, is_new, *piece) for piece in pieces]


def _add(is_new: bool, total: Tensor, *grads: Tensor) -> None:
    """Add all of `grads` to `total`; bfloat16 ones replace what a new total holds."""
    for number, grad in enumerate(grads):
        if grad.dtype == total.dtype:
            total.add_(grad)
        else:
            native_sum_up(total, grad, is_new and number == 0)
