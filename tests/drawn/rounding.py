"""How far from float64 a computation with fewer digits may be.

A good computation gives what exact arithmetic gives for slightly other weights: as far from the given ones as its numbers
are rounded. So the bound is what such a change of the weights does to the exact result. It grows where a model amplifies
rounding, as a norm over two columns does, and the settings need not be known.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from tests.drawn.plain_model import Weights

FP32 = 2.0**-24  # half a unit in the last place, relative
BF16 = 2.0**-8
SHAKEN = 3  # changed copies of the weights
# Each activation is rounded too, once for each operation, and by chance several times in the same direction.
FACTOR = 12.0

Compute = Callable[[Weights], Sequence[Tensor]]


class Exact(NamedTuple):
    """A result in float64, and how far another one may be from it, as a norm."""

    value: Tensor
    bound: float

    def check(self, got: Tensor, what: str) -> None:
        """AssertionError unless `got` is within the bound."""
        assert got.shape == self.value.shape, (
            f"{what}: expected shape {tuple(self.value.shape)}, got {tuple(got.shape)}"
        )
        difference = got.detach().double() - self.value
        error = float(difference.norm())
        if not error <= self.bound:
            worst = int(difference.abs().nan_to_num(torch.inf).argmax())
            expected, found = self.value.flatten()[worst], got.flatten()[worst]
            raise AssertionError(
                f"{what}: expected {float(expected):.7g} at place {worst}, got {float(found):.7g}; "
                f"the norm of all differences is {error:.3g}, allowed {self.bound:.3g}"
            )


def exactly(compute: Compute, weights: Weights, unit: float, seed: int = 0) -> list[Exact]:
    """The results of `compute` in float64, each with its bound.

    unit: the relative error of one rounding. A result that rounding alone decides, such as the gradient of the keys' biases,
    may be as far as one unit of all results together.
    """
    weights = {name: tensor.double() for name, tensor in weights.items()}
    exact = [result.detach() for result in compute(weights)]
    generator = torch.Generator().manual_seed(seed)
    errors = [0.0] * len(exact)
    for _ in range(SHAKEN):
        shaken = {}
        for name, tensor in weights.items():
            noise = 2 * torch.rand(tensor.shape, generator=generator, dtype=torch.float64) - 1
            shaken[name] = tensor.detach() * (1 + unit * noise)
        for place, result in enumerate(compute(shaken)):
            errors[place] = max(errors[place], float((result.detach() - exact[place]).norm()))
    together = float(sum(result.square().sum() for result in exact)) ** 0.5
    return [
        Exact(result, FACTOR * (error + unit * together / len(exact)))
        for result, error in zip(exact, errors, strict=True)
    ]
