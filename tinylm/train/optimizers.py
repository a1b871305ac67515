"""Adam and AdamW from scratch, and gradient clipping."""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor

from tinylm.kernels.train import adam

PIECE = 1 << 17


def in_pieces(rows: Sequence[tuple[Tensor, ...]]) -> Iterator[list[list[Tensor]]]:
    """For equal work on many tensors: rows (parameter, gradient, ...) as columns, each a list of flat pieces to change.

    On CUDA all of it at once, so one kernel serves many tensors; on a CPU one piece of `PIECE` numbers after another,
    so the passes over a piece cost memory traffic only once.
    """
    if rows and rows[0][0].is_cuda:
        yield [list(column) for column in zip(*rows, strict=True)]
        return
    for row in rows:
        for pieces in zip(*(tensor.view(-1).split(PIECE) for tensor in row), strict=True):
            yield [[piece] for piece in pieces]


class Adam:
    """Adam (Kingma and Ba 2015, algorithm 1), with decoupled weight decay as AdamW (Loshchilov and Hutter 2019).

    m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  p -= lr * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)

    decoupled: p is first multiplied by 1 - lr * weight_decay; otherwise weight_decay * p is added to the gradient.
    Each group is (parameters, weight_decay). native: use the kernel `adam`, which differs by rounding.
    """

    def __init__(
        self,
        groups: Sequence[tuple[list[Tensor], float]],
        betas: tuple[float, float],
        eps: float,
        decoupled: bool,
        native: bool = False,
    ) -> None:
        self.groups, self.betas, self.eps, self.decoupled = groups, betas, eps, decoupled
        self.native = native
        self.updates = 0
        self.first = [torch.zeros_like(p) for parameters, _ in groups for p in parameters]
        self.second = [torch.zeros_like(p) for parameters, _ in groups for p in parameters]

    def tensors(self) -> dict[str, Tensor]:
        """State except the number of updates, for snapshots."""
        moments = (("first", self.first), ("second", self.second))
        return {f"{name}.{i}": tensor for name, group in moments for i, tensor in enumerate(group)}

    def step(self, lr: float) -> None:
        """One update with the parameters' current gradients."""
        for part in self.parts(lr):
            part()

    def parts(self, lr: float) -> list[Callable[[], None]]:
        """One update in parts that change different numbers."""
        self.updates += 1
        moments = iter(zip(self.first, self.second, strict=True))
        parts: list[Callable[[], None]] = []
        for parameters, weight_decay in self.groups:
            held = [(p.detach(), p.grad, *next(moments)) for p in parameters]
            moving = [(p, grad.contiguous(), *rest) for p, grad, *rest in held if grad is not None]
            move = self._move_native if self.native else self._move
            parts += [
                functools.partial(move, lr, weight_decay, *pieces) for pieces in in_pieces(moving)
            ]
        return parts

    @torch.no_grad()
    def _move_native(self, lr: float, weight_decay: float, *columns: list[Tensor]) -> None:
        beta1, beta2 = self.betas
        decay = lr * weight_decay if self.decoupled else weight_decay
        own = lr / (1.0 - beta1**self.updates), beta1, beta2, self.eps, decay
        rates = adam.Rates(*own, 1.0 / (1.0 - beta2**self.updates), self.decoupled)
        for tensors in zip(*columns, strict=True):
            adam.step(rates, *tensors)

    @torch.no_grad()
    def _move(
        self,
        lr: float,
        weight_decay: float,
        parameters: list[Tensor],
        grads: list[Tensor],
        first: list[Tensor],
        second: list[Tensor],
    ) -> None:
        """The formula above on lists of tensors, in place."""
        beta1, beta2 = self.betas
        if weight_decay and self.decoupled:
            torch._foreach_mul_(parameters, 1.0 - lr * weight_decay)
        elif weight_decay:
            grads = list(torch._foreach_add(torch._foreach_mul(parameters, weight_decay), grads))
        torch._foreach_lerp_(first, grads, 1.0 - beta1)
        torch._foreach_mul_(second, beta2)
        torch._foreach_addcmul_(second, grads, grads, value=1.0 - beta2)
        scale = torch._foreach_div(second, 1.0 - beta2**self.updates)
        torch._foreach_sqrt_(scale)
        torch._foreach_add_(scale, self.eps)
        torch._foreach_addcdiv_(parameters, first, scale, value=-lr / (1.0 - beta1**self.updates))


@torch.no_grad()
def clip_gradients(
    parameters: Iterable[Tensor], max_norm: float | None, native: bool = False
) -> float:
    """Scale all gradients by one factor so that their joint Euclidean norm is at most `max_norm`.

    Pascanu et al. 2013, algorithm 1. Returns the norm before clipping; None never scales.
    """
    grads = [p.grad for p in parameters if p.grad is not None]
    flat = [grad.contiguous() for grad in grads]
    if native:
        squares = [adam.square(grad) for grad in flat]
    else:
        wide = (
            piece.double().flatten()
            for (pieces,) in in_pieces([(grad,) for grad in flat])
            for piece in pieces
        )
        squares = [torch.dot(piece, piece) for piece in wide]
    norm = float(torch.stack(squares).sum().sqrt())
    if max_norm is not None and norm > max_norm:
        torch._foreach_mul_(grads, max_norm / norm)
    return norm
