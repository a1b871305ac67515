"""Muon from scratch: momentum whose every update is orthogonalised."""

import functools
from collections import defaultdict
from collections.abc import Callable

import torch
from torch import Tensor

# Of compositions of odd quintics a x + b x^3 + c x^5, those that stay closest to 1: the first on [0.02, 1], each later
# one on the interval that those before it leave (Amsel et al. 2025, arXiv:2505.16932, algorithm 1).
QUINTICS = ((7.7110, -22.1138, 16.2488), (3.2153, -2.4112, 0.5013), (2.2183, -1.5940, 0.4107))
MARGIN = (
    1.02  # the first quintic grows fast beyond 1, which rounding may reach for a matrix of rank one
)


def orthogonalise(stack: Tensor) -> Tensor:
    """Nearest semi-orthogonal matrices, roughly: U V^T of each singular value decomposition U S V^T.

    (matrices, m, n), m <= n -> the same shape and type. Three Newton-Schulz steps X <- (a + b A + c A^2) X with
    A = X X^T: singular values above 0.02 of the scale come out between 0.9 and 1.1. The scale is the root of A's norm,
    (sum of s^4)^(1/4): never below the largest singular value s, and for many equal ones closer to it than X's own
    norm by m^(1/4), which is worth one of the five steps of Jordan et al. 2024 (kellerjordan.github.io/posts/muon).
    """
    square = stack @ stack.mT
    size = torch.linalg.vector_norm(
        square, dim=(1, 2), keepdim=True, dtype=torch.float64
    )  # squares would overflow
    scale = (MARGIN * size.sqrt()).clamp_min(1e-15).reciprocal()
    first, *others = QUINTICS
    x = _quintic(stack * scale.to(stack.dtype), square * scale.square().to(stack.dtype), *first)
    for further in others:
        x = _quintic(x, x @ x.mT, *further)
    return x


def _quintic(x: Tensor, square: Tensor, a: float, b: float, c: float) -> Tensor:
    """(a + b A + c A^2) X for matrices X and A = X X^T."""
    return torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)


class Muon:
    """Momentum whose every update is orthogonalised, for weight matrices (Jordan et al. 2024).

    m = b m + (1 - b) g;  p -= lr * (sqrt(max(1, rows / columns)) * orthogonalise((1 - b) g + b m) + weight_decay * p)

    parameters: (matrix, pieces): a matrix that stacks several maps (query, key, value) is orthogonalised piece by
    piece. dtype: of the products. Matrices of one shape are orthogonalised together, wide: a few large products keep
    all cores busy.
    """

    def __init__(
        self,
        parameters: list[tuple[Tensor, int]],
        beta: float,
        weight_decay: float,
        dtype: torch.dtype,
    ) -> None:
        self.parameters, self.beta, self.weight_decay, self.dtype = (
            parameters,
            beta,
            weight_decay,
            dtype,
        )
        self.updates = 0
        self.momentum = [torch.zeros_like(p) for p, _ in parameters]

    def tensors(self) -> dict[str, Tensor]:
        """State except the number of updates, for snapshots."""
        return {f"momentum.{i}": tensor for i, tensor in enumerate(self.momentum)}

    def step(self, lr: float) -> None:
        """One update with the parameters' current gradients."""
        for part in self.parts(lr, len(self.parameters) * 3):
            part()

    def parts(self, lr: float, at_most: int = 4) -> list[Callable[[], None]]:
        """One update in parts that change different matrices, of one shape and `at_most` so many in each."""
        self.updates += 1
        alike: dict[torch.Size, list[tuple[Tensor, Tensor, Tensor]]] = defaultdict(list)
        for (parameter, pieces), momentum in zip(self.parameters, self.momentum, strict=True):
            if parameter.grad is not None:
                columns = (
                    tensor.chunk(pieces)
                    for tensor in (parameter.detach(), parameter.grad, momentum)
                )
                for piece in zip(*columns, strict=True):
                    wide = piece[0].shape[0] <= piece[0].shape[1]
                    alike[piece[0].shape if wide else piece[0].mT.shape].append(piece)
        groups = (
            same[start : start + at_most]
            for same in alike.values()
            for start in range(0, len(same), at_most)
        )
        return [functools.partial(self._move, lr, group) for group in groups]

    @torch.no_grad()
    def _move(self, lr: float, group: list[tuple[Tensor, Tensor, Tensor]]) -> None:
        """The formula above for (matrix, gradient, momentum) of one shape, or turned to one shape."""
        wide = []
        for _, grad, momentum in group:
            momentum.lerp_(grad, 1.0 - self.beta)
            direction = grad.lerp(momentum, self.beta).to(self.dtype)
            wide.append(direction if direction.shape[0] <= direction.shape[1] else direction.mT)
        directions = orthogonalise(torch.stack(wide))
        for (target, _, _), direction in zip(group, directions, strict=True):
            tall = max(1.0, target.shape[0] / target.shape[1]) ** 0.5
            turned = target if tall == 1.0 else target.mT
            turned.mul_(1.0 - lr * self.weight_decay).sub_(direction, alpha=lr * tall)
