"""Adam and AdamW from scratch, and gradient clipping."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

CHUNK_NUMEL = 1 << 17


def in_chunks(rows: Sequence[tuple[Tensor, ...]]) -> Iterator[list[list[Tensor]]]:
    """Rows (parameter, gradient, ...) as columns, each a list of flat tensors to change in place.

    On CUDA all rows at once, so that one kernel serves many tensors. On a CPU one chunk of
    `CHUNK_NUMEL` numbers after another, which stays in the cache for all passes over it.
    """
    if rows and rows[0][0].is_cuda:
        yield [list(column) for column in zip(*rows, strict=True)]
        return
    for row in rows:
        chunks = [tensor.view(-1).split(CHUNK_NUMEL) for tensor in row]
        for columns in zip(*chunks, strict=True):
            yield [[chunk] for chunk in columns]


class Adam:
    """Adam (Kingma and Ba 2015, algorithm 1), or AdamW (Loshchilov and Hutter 2019).

    m = b1 m + (1 - b1) g
    v = b2 v + (1 - b2) g^2
    p -= lr * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)

    decoupled (AdamW): p is first multiplied by 1 - lr * weight_decay. Otherwise weight_decay * p is
    added to the gradient. Each group is (parameters, weight_decay).
    """

    def __init__(
        self,
        groups: Sequence[tuple[list[Tensor], float]],
        betas: tuple[float, float],
        eps: float,
        decoupled: bool,
    ) -> None:
        self.groups = groups
        self.betas = betas
        self.eps = eps
        self.decoupled = decoupled
        self.updates = 0
        self.first = [torch.zeros_like(p) for parameters, _ in groups for p in parameters]
        self.second = [torch.zeros_like(p) for parameters, _ in groups for p in parameters]

    def state_dict(self) -> dict[str, Tensor]:
        """State except the number of updates, for snapshots."""
        first = {f"first.{i}": tensor for i, tensor in enumerate(self.first)}
        second = {f"second.{i}": tensor for i, tensor in enumerate(self.second)}
        return first | second

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """One update with the parameters' current gradients."""
        self.updates += 1
        moments = iter(zip(self.first, self.second, strict=True))
        for parameters, weight_decay in self.groups:
            rows = []
            for parameter in parameters:
                first, second = next(moments)
                if parameter.grad is not None:
                    rows.append((parameter, parameter.grad.contiguous(), first, second))
            for columns in in_chunks(rows):
                self._apply_update(lr, weight_decay, *columns)

    @torch.no_grad()
    def step_on_card(self, lr: Tensor, updates: Tensor) -> None:
        """`step` by PyTorch's fused kernel, whose numbers stay on the device.

        lr and the number of this update are float32 scalars there, so that a CUDA graph can read
        new ones at each replay. The caller counts the updates.
        """
        fused: Any = torch._fused_adamw_ if self.decoupled else torch._fused_adam_
        moments = iter(zip(self.first, self.second, strict=True))
        for parameters, weight_decay in self.groups:
            rows = []
            for parameter in parameters:
                first, second = next(moments)
                if parameter.grad is not None:
                    rows.append((parameter, parameter.grad.contiguous(), first, second))
            if not rows:
                continue
            columns: Any = [list(column) for column in zip(*rows, strict=True)]
            fused(
                *columns,
                max_exp_avg_sqs=[],
                state_steps=[updates] * len(rows),
                lr=lr,
                beta1=self.betas[0],
                beta2=self.betas[1],
                weight_decay=weight_decay,
                eps=self.eps,
                amsgrad=False,
                maximize=False,
            )

    def _apply_update(
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
def clip_gradients(parameters: Iterable[Tensor], max_norm: float | None) -> float:
    """Scale all gradients by one factor so that their joint Euclidean norm is at most `max_norm`.

    Pascanu et al. 2013, algorithm 1. Returns the norm before clipping; None never scales.
    """
    grads = [p.grad for p in parameters if p.grad is not None]
    squares = []
    for (chunks,) in in_chunks([(grad.contiguous(),) for grad in grads]):
        for chunk in chunks:
            wide = chunk.double().flatten()  # squares of float32 may overflow
            squares.append(torch.dot(wide, wide))
    norm = float(torch.stack(squares).sum().sqrt())
    if max_norm is not None and norm > max_norm:
        torch._foreach_mul_(grads, max_norm / norm)
    return norm


@torch.no_grad()
def clip_gradients_on_card(parameters: Iterable[Tensor], max_norm: float | None) -> Tensor:
    """`clip_gradients` without waiting for the device: the norm is a float32 scalar there."""
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
    if max_norm is not None:
        torch._foreach_mul_(grads, (max_norm / norm).clamp(max=1.0))
    return norm
