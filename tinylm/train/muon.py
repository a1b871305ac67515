"""Muon from scratch: momentum whose every update is orthogonalised."""

from collections import defaultdict
from functools import partial

import torch
from torch import Tensor

from tinylm.train.cores import cores, map_on_cores

# Of compositions of odd quintics a x + b x^3 + c x^5, those that stay closest to 1: the first on
# [0.02, 1], each later one on the interval that those before it leave (Amsel et al. 2025,
# arXiv:2505.16932, algorithm 1).
QUINTICS = ((7.7110, -22.1138, 16.2488), (3.2153, -2.4112, 0.5013), (2.2183, -1.5940, 0.4107))
# The first quintic grows fast beyond 1, which rounding may reach for a matrix of rank one.
MARGIN = 1.02
MOMENTUM = 0.9  # share of the momentum that an update keeps
STACK = 4  # matrices orthogonalised together, which saves calls

MatrixUpdate = tuple[Tensor, Tensor, Tensor]  # matrix, gradient, momentum


def orthogonalise(stack: Tensor) -> Tensor:
    """Roughly the nearest semi-orthogonal matrices: U V^T of each decomposition U S V^T.

    (matrices, m, n), m <= n -> the same shape and type. Three Newton-Schulz steps
    X <- (a + b A + c A^2) X with A = X X^T: singular values above 0.02 of the scale end up
    between 0.9 and 1.1. The scale is the root of A's norm, (sum of s^4)^(1/4). It is never below
    the largest singular value s. If many are equal, it is closer to s than the norm of X, by a
    factor of m^(1/4). This saves one of the five steps of Jordan et al. 2024
    (kellerjordan.github.io/posts/muon).
    """
    square = stack @ stack.mT
    # in float64, since squares would overflow
    size = torch.linalg.vector_norm(square, dim=(1, 2), keepdim=True, dtype=torch.float64)
    scale = (MARGIN * size.sqrt()).clamp_min(1e-15).reciprocal()
    first, *others = QUINTICS
    x = _quintic(stack * scale.to(stack.dtype), square * scale.square().to(stack.dtype), *first)
    for quintic in others:
        x = _quintic(x, x @ x.mT, *quintic)
    return x


def _quintic(x: Tensor, square: Tensor, a: float, b: float, c: float) -> Tensor:
    """(a + b A + c A^2) X for matrices X and A = X X^T."""
    return torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)


class Muon:
    """Momentum whose every update is orthogonalised, for weight matrices (Jordan et al. 2024).

    m = b m + (1 - b) g
    p -= lr * (sqrt(max(1, rows / columns)) * orthogonalise((1 - b) g + b m) + weight_decay * p)

    parameters: (matrix, pieces). A matrix that stacks several maps (query, key, value) is
    orthogonalised piece by piece. dtype: of the products.
    """

    def __init__(
        self,
        parameters: list[tuple[Tensor, int]],
        beta: float,
        weight_decay: float,
        dtype: torch.dtype,
    ) -> None:
        self.parameters = parameters
        self.beta = beta
        self.weight_decay = weight_decay
        self.dtype = dtype
        self.momentum = [torch.zeros_like(p) for p, _ in parameters]

    def state_dict(self) -> dict[str, Tensor]:
        """State, for snapshots."""
        return {f"momentum.{i}": tensor for i, tensor in enumerate(self.momentum)}

    def step(self, lr: float | Tensor, number: int | Tensor | None = None) -> None:
        """One update with the parameters' current gradients; matrices of one shape together.

        lr is a scalar on the device in a CUDA graph. number: of the update, which `Adam` needs.
        """
        stacks = []
        for tasks in self._tasks_by_shape().values():
            together = len(tasks) if isinstance(lr, Tensor) else STACK
            stacks += [tasks[start : start + together] for start in range(0, len(tasks), together)]
        count = cores(self.momentum[0].device) if stacks else 1
        map_on_cores(partial(self._apply_update, lr), stacks, count, _products)

    def _tasks_by_shape(self) -> dict[torch.Size, list[MatrixUpdate]]:
        """Every piece of every matrix that has a gradient, by its shape with rows <= columns."""
        tasks = defaultdict(list)
        for (parameter, pieces), momentum in zip(self.parameters, self.momentum, strict=True):
            if parameter.grad is None:
                continue
            matrices = parameter.detach().chunk(pieces)
            grads = parameter.grad.chunk(pieces)
            momenta = momentum.chunk(pieces)
            for task in zip(matrices, grads, momenta, strict=True):
                tasks[_wide(task[0]).shape].append(task)
        return tasks

    @torch.no_grad()
    def _apply_update(self, lr: float | Tensor, tasks: list[MatrixUpdate]) -> None:
        """The formula above for matrices of one shape."""
        matrices, grads, momenta = (list(column) for column in zip(*tasks, strict=True))
        torch._foreach_lerp_(momenta, grads, 1.0 - self.beta)
        directions = torch._foreach_lerp(grads, momenta, self.beta)
        stack = torch.stack([_wide(direction.to(self.dtype)) for direction in directions])
        for matrix, direction in zip(matrices, orthogonalise(stack), strict=True):
            stretch = max(1.0, matrix.shape[0] / matrix.shape[1]) ** 0.5
            wide = _wide(matrix)
            wide.mul_(1.0 - lr * self.weight_decay)
            if isinstance(lr, Tensor):
                wide.sub_(direction * (lr * stretch))
            else:
                wide.sub_(direction, alpha=lr * stretch)


def _products(tasks: list[MatrixUpdate]) -> int:
    """The operations of one product for each matrix, up to a factor."""
    rows, columns = _wide(tasks[0][0]).shape
    return len(tasks) * rows * rows * columns


def _wide(matrix: Tensor) -> Tensor:
    """The matrix, or its transpose if it has more rows than columns."""
    return matrix if matrix.shape[0] <= matrix.shape[1] else matrix.mT
