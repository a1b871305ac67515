"""Adam and AdamW from scratch, and gradient clipping."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from tinylm.train.cores import cores, map_on_cores, one_thread

EPS = 1e-8  # as Kingma and Ba 2015 recommend


class Adam:
    """Adam (Kingma and Ba 2015, algorithm 1), or AdamW (Loshchilov and Hutter 2019).

    m = b1 m + (1 - b1) g
    v = b2 v + (1 - b2) g^2
    p -= lr * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)

    decoupled (AdamW): p is first multiplied by 1 - lr * weight_decay. Otherwise weight_decay * p is
    added to the gradient. fused: use PyTorch's kernel, which makes one pass over memory. Its results
    differ from the formula's by rounding.
    """

    def __init__(
        self,
        parameters: list[Tensor],
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
        decoupled: bool,
        fused: bool = False,
    ) -> None:
        self.parameters = parameters
        self.betas = betas
        self.eps = eps
        self.weight_decay = weight_decay
        self.decoupled = decoupled
        self.fused = fused and all(p.is_contiguous() for p in parameters)  # it ignores strides
        self.first = [torch.zeros_like(p) for p in parameters]
        self.second = [torch.zeros_like(p) for p in parameters]

    def state_dict(self) -> dict[str, Tensor]:
        """The live tensors of both moments, for snapshots."""
        first = {f"first.{i}": tensor for i, tensor in enumerate(self.first)}
        second = {f"second.{i}": tensor for i, tensor in enumerate(self.second)}
        return first | second

    @torch.no_grad()
    def step(self, lr: float | Tensor, number: int | Tensor) -> None:
        """Update `number`, counted from 1, with the parameters' current gradients.

        In a CUDA graph, lr and number are float32 scalars on the device, so that each replay reads
        new values; the update is then fused. A parameter without a gradient stays as it is.
        """
        updated = []
        for parameter, first, second in zip(self.parameters, self.first, self.second, strict=True):
            if parameter.grad is not None:
                updated.append((parameter, parameter.grad.contiguous(), first, second))
        if not updated:
            return
        tensors = [list(column) for column in zip(*updated, strict=True)]
        if isinstance(number, Tensor):
            self._apply_fused_update(lr, number, tensors)
        elif self.fused:
            device = tensors[0][0].device
            number_tensor = torch.tensor(float(number), dtype=torch.float32, device=device)

            def update_one(of_parameter: tuple[Tensor, ...]) -> None:
                self._apply_fused_update(lr, number_tensor, [[tensor] for tensor in of_parameter])

            map_on_cores(update_one, updated, cores(device), lambda each: each[0].numel())
        else:
            self._apply_update(lr, number, *tensors)

    def _apply_update(
        self,
        lr: Any,
        number: int,
        parameters: list[Tensor],
        grads: list[Tensor],
        first: list[Tensor],
        second: list[Tensor],
    ) -> None:
        """The formula above on lists of tensors, in place."""
        beta1, beta2 = self.betas
        if self.weight_decay and self.decoupled:
            torch._foreach_mul_(parameters, 1.0 - lr * self.weight_decay)
        elif self.weight_decay:
            decay = torch._foreach_mul(parameters, self.weight_decay)
            grads = list(torch._foreach_add(decay, grads))
        torch._foreach_lerp_(first, grads, 1.0 - beta1)
        torch._foreach_mul_(second, beta2)
        torch._foreach_addcmul_(second, grads, grads, value=1.0 - beta2)
        scale = torch._foreach_div(second, 1.0 - beta2**number)
        torch._foreach_sqrt_(scale)
        torch._foreach_add_(scale, self.eps)
        torch._foreach_addcdiv_(parameters, first, scale, value=-lr / (1.0 - beta1**number))

    def _apply_fused_update(
        self, lr: float | Tensor, number: Tensor, tensors: list[list[Tensor]]
    ) -> None:
        """`_apply_update` with PyTorch's kernel."""
        update: Any = torch._fused_adamw_ if self.decoupled else torch._fused_adam_
        update(
            *tensors,
            max_exp_avg_sqs=[],
            state_steps=[number] * len(tensors[0]),
            lr=lr,
            beta1=self.betas[0],
            beta2=self.betas[1],
            weight_decay=self.weight_decay,
            eps=self.eps,
            amsgrad=False,
            maximize=False,
        )


@torch.no_grad()
def clip_gradients(parameters: Iterable[Tensor], max_norm: float | None) -> float:
    """Scale all gradients by one factor so that their joint Euclidean norm is at most `max_norm`.

    Pascanu et al. 2013, algorithm 1. None: never scale. Returns the norm before clipping.
    """
    grads = [p.grad for p in parameters if p.grad is not None]
    count = cores(grads[0].device)
    # Rows first, in float32, then float64: one float32 sum of millions of squares loses digits.
    rows = map_on_cores(_norms_of_rows, grads, count, Tensor.numel)
    with one_thread():
        norm = float(torch.linalg.vector_norm(torch.cat(rows), dtype=torch.float64))
    if max_norm is not None and norm > max_norm:
        factor = max_norm / norm
        map_on_cores(lambda grad: grad.mul_(factor), grads, count, Tensor.numel)
    return norm


@torch.no_grad()
def _norms_of_rows(grad: Tensor) -> Tensor:
    return torch.linalg.vector_norm(grad, dim=-1).flatten()


@torch.no_grad()
def clip_gradients_on_device(parameters: Iterable[Tensor], max_norm: float | None) -> Tensor:
    """`clip_gradients` without waiting for the device: the norm is a float32 scalar there."""
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
    if max_norm is not None:
        torch._foreach_mul_(grads, (max_norm / norm).clamp(max=1.0))
    return norm
