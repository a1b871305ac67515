"""Adam, AdamW and Muon from scratch."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor


class Adam:
    """Adam (Kingma and Ba 2015, algorithm 1), with decoupled weight decay as AdamW (Loshchilov and Hutter 2019).

    m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  p -= lr * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)

    decoupled: p is first multiplied by 1 - lr * weight_decay; else weight_decay * p is added to the gradient.
    Each group is (parameters, weight_decay).
    """

    def __init__(
        self,
        groups: Sequence[tuple[list[Tensor], float]],
        betas: tuple[float, float],
        eps: float,
        decoupled: bool,
    ) -> None:
        self.groups, self.betas, self.eps, self.decoupled = groups, betas, eps, decoupled
        self.updates = 0
        self.first = [torch.zeros_like(p) for parameters, _ in groups for p in parameters]
        self.second = [torch.zeros_like(p) for parameters, _ in groups for p in parameters]

    def tensors(self) -> dict[str, Tensor]:
        """State beside the number of updates, for snapshots."""
        moments = (("first", self.first), ("second", self.second))
        return {f"{name}.{i}": tensor for name, group in moments for i, tensor in enumerate(group)}

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """One update with the gradients that the parameters hold."""
        self.updates += 1
        beta1, beta2 = self.betas
        correction1 = 1.0 - beta1**self.updates
        correction2 = 1.0 - beta2**self.updates
        moments = iter(zip(self.first, self.second, strict=True))
        for parameters, weight_decay in self.groups:
            for parameter in parameters:
                first, second = next(moments)
                grad = parameter.grad
                if grad is None:
                    continue
                if weight_decay and self.decoupled:
                    parameter.mul_(1.0 - lr * weight_decay)
                elif weight_decay:
                    grad = grad + weight_decay * parameter
                first.lerp_(grad, 1.0 - beta1)
                second.mul_(beta2).addcmul_(grad, grad, value=1.0 - beta2)
                scale = (second / correction2).sqrt_().add_(self.eps)
                parameter.addcdiv_(first, scale, value=-lr / correction1)


def orthogonalise(matrix: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Nearest semi-orthogonal matrix, roughly: U V^T of the singular value decomposition U S V^T.  (m, n) -> (m, n)

    Five Newton-Schulz steps X <- a X + (b A + c A^2) X with A = X X^T, on X scaled to a norm of 1, with the
    quintic's coefficients of Jordan et al. 2024 ("Muon", kellerjordan.github.io/posts/muon): singular values come
    out between about 0.7 and 1.2, which serves as well as 1 and needs half the steps.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = matrix.shape[0] > matrix.shape[1]
    x = (matrix.T if tall else matrix).to(dtype)
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    return (x.T if tall else x).to(matrix.dtype)


class Muon:
    """Momentum whose every update is orthogonalised, for weight matrices (Jordan et al. 2024).

    m = b m + (1 - b) g;  p -= lr * (sqrt(max(1, rows / columns)) * orthogonalise((1 - b) g + b m) + weight_decay * p)

    parameters: (matrix, pieces): a matrix that holds several maps one below the other (query, key, value) is
    orthogonalised piece by piece.
    """

    def __init__(
        self, parameters: list[tuple[Tensor, int]], beta: float, weight_decay: float, dtype: torch.dtype
    ) -> None:
        self.parameters, self.beta, self.weight_decay, self.dtype = parameters, beta, weight_decay, dtype
        self.updates = 0
        self.momentum = [torch.zeros_like(p) for p, _ in parameters]

    def tensors(self) -> dict[str, Tensor]:
        """State beside the number of updates, for snapshots."""
        return {f"momentum.{i}": tensor for i, tensor in enumerate(self.momentum)}

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """One update with the gradients that the parameters hold."""
        self.updates += 1
        for (parameter, pieces), momentum in zip(self.parameters, self.momentum, strict=True):
            if parameter.grad is None:
                continue
            momentum.lerp_(parameter.grad, 1.0 - self.beta)
            direction = parameter.grad.lerp(momentum, self.beta)
            parameter.mul_(1.0 - lr * self.weight_decay)
            for target, piece in zip(parameter.chunk(pieces), direction.chunk(pieces), strict=True):
                size = max(1.0, piece.shape[0] / piece.shape[1]) ** 0.5
                target.add_(orthogonalise(piece, self.dtype), alpha=-lr * size)


@torch.no_grad()
def clip_gradients(parameters: Iterable[Tensor], max_norm: float | None) -> float:
    """Scale all gradients by one factor so that their joint Euclidean norm is at most `max_norm`.

    Pascanu et al. 2013, algorithm 1. Returns the norm before clipping; null never scales.
    """
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = float(torch.stack([grad.double().square().sum() for grad in grads]).sum().sqrt())
    if max_norm is not None and norm > max_norm:
        for grad in grads:
            grad.mul_(max_norm / norm)
    return norm
