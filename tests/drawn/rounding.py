"""How far from float64 a computation with fewer digits may be.

A good computation gives what exact arithmetic gives if weights and intermediate results are changed as slightly as they are
rounded. So the bound is what such changes do to the exact result. It grows where a model amplifies rounding, as a norm over
two columns does, and the settings need not be known. There is no bound where numbers leave the range of the format,
as they do after training has diverged.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tests.drawn.plain_model import PlainModel, Settings, Weights

FP32 = 2.0**-24  # half a unit in the last place, relative
BF16 = 2.0**-8
F16 = 2.0**-11
# Weights and activations are rounded to 1/254 of the largest number of a block.
Q8_0 = 4 / 254
UNITS = {"fp32": FP32, "bf16": BF16}  # of train.precision
# The largest number for which a format promises anything. Norms square numbers in float32. Rows that are not whole blocks
# of Q8_0 become F16.
LARGEST = {FP32: 2.0**60, BF16: 2.0**60, F16: 2.0**15, Q8_0: 2.0**15}
# Half the smallest positive number, of a format whose range models reach.
SMALLEST = {F16: 2.0**-25}
SHAKEN = 3  # computations with changes of one rounding, and as many with changes as large as the bound allows
MORE_SHAKEN = 40  # where a few changes do not show how much a model amplifies rounding
# The bound is so many times the largest error seen. Changes are random, but rounding may always err in one direction.
FACTOR = 20.0
# A block's largest number is rounded by one unit at most, and 20 units would be a third of it: zeros would pass. In bf16,
# 20 errors are a third of most gradients; of 260 gradients on AMD Zen 4, none was off by more than 0.92 times the largest
# error of forty shaken models.
FACTORS = {Q8_0: 3.0, BF16: 3.0}


def noise(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Numbers from -1 to 1."""
    return 2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1


class RoundedGradient(torch.autograd.Function):
    """The same numbers, with a gradient that rounding changes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, unit: float, generator: torch.Generator) -> Tensor:
        ctx.unit, ctx.generator = unit, generator
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        error = ctx.unit * noise(grads[0].shape, ctx.generator)
        return grads[0] * (1 + error), None, None


class FusedAttention(torch.autograd.Function):
    """The same numbers, with the gradient of an attention that keeps no weights: train.attention torch.

    Its backward pass computes the weights P again from the rounded logarithm L of each row's sum: P = exp(score - L). An error
    of the score, which is as large as the products that it sums, or of L, is a relative error of P. So rounding is
    amplified by the size of the scores.

    dV = P^T dY;  dP = dY V^T;  dS = P * (dP - sum(dY * Y));  dQ = dS K;  dK = dS^T Q
    """

    @staticmethod
    def forward(
        ctx: Any,
        mixed: Tensor,
        weights: Tensor,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        unit: float,
        score_unit: float,
        generator: torch.Generator,
    ) -> Tensor:
        """All parts are (B, H, T, Dh); weights: (B, H, T, T).

        unit: relative error of what is kept in the model's precision; score_unit: of scores and L.
        """
        ctx.save_for_backward(mixed, weights, queries, keys, values)
        ctx.unit, ctx.score_unit, ctx.generator = unit, score_unit, generator
        return mixed.view_as(mixed)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        mixed, weights, queries, keys, values = ctx.saved_tensors
        (grad,) = grads
        later = torch.ones(weights.shape[-2:], dtype=torch.bool).triu(1)
        log_sum = (queries @ keys.mT).masked_fill(later, -math.inf).logsumexp(-1, keepdim=True)
        score_error = (queries.abs() @ keys.abs().mT) * noise(weights.shape, ctx.generator)
        sum_error = log_sum * noise(log_sum.shape, ctx.generator)
        again = weights * (ctx.score_unit * (score_error - sum_error)).exp()
        again = again * (1 + ctx.unit * noise(again.shape, ctx.generator))
        kept = mixed * (1 + ctx.unit * noise(mixed.shape, ctx.generator))
        grad_scores = again * (grad @ values.mT - (grad * kept).sum(-1, keepdim=True))
        grad_queries, grad_keys = grad_scores @ keys, grad_scores.mT @ queries
        return None, None, grad_queries, grad_keys, again.mT @ grad, None, None, None


class ShakenModel(PlainModel):
    """The plain model. After `shake`, intermediate results and gradients have a relative error of at most `factor` units.

    is_fused: whether attention is torch's fused one in training.
    """

    unit = 0.0
    factor = 0.0
    smallest = 0.0
    largest = 0.0  # magnitude of all weights and intermediate results since `shake`
    generator: torch.Generator | None = None

    def __init__(self, weights: Weights, settings: Settings, is_fused: bool = False) -> None:
        super().__init__(weights, settings)
        self.is_fused = is_fused

    def shake(self, unit: float, generator: torch.Generator, factor: float) -> None:
        """Change the weights now, and from now on what each part of the model gives, by `factor` units."""
        self.unit, self.factor, self.generator = factor * unit, factor, generator
        self.smallest = factor * SMALLEST.get(unit, 0.0)
        self.weights = {name: self.shaken(tensor) for name, tensor in self.weights.items()}

    def shaken(self, x: Tensor) -> Tensor:
        if self.generator is None:
            return x
        largest = float(x.detach().abs().max())
        if not largest <= self.largest:  # NaN counts as the largest
            self.largest = largest
        changed = x * (1 + self.unit * noise(x.shape, self.generator))
        if self.smallest:
            changed = changed + self.smallest * noise(x.shape, self.generator)
        return RoundedGradient.apply(changed, self.unit, self.generator)

    def embed(self, ids: Tensor) -> Tensor:
        return self.shaken(super().embed(ids))

    def linear(self, x: Tensor, name: str, has_bias: bool) -> Tensor:
        return self.shaken(super().linear(x, name, has_bias))

    def norm(self, x: Tensor, name: str) -> Tensor:
        return self.shaken(super().norm(x, name))

    def mean(self, x: Tensor) -> Tensor:
        return self.shaken(super().mean(x))

    def again(self, x: Tensor) -> Tensor:
        if self.generator is None:
            return x
        return RoundedGradient.apply(x, self.unit, self.generator)

    def softmax(self, scores: Tensor) -> Tensor:
        # In float32, two scores may be equal, and the softmax has a gradient that it lacks otherwise.
        return super().softmax(scores if self.generator is None else scores.float().double())

    def mix(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        mixed = super().mix(queries, keys, values)
        if self.generator is None or not self.is_fused:
            return mixed
        # Scores and their logarithm are float32, whatever the precision of the model.
        score_unit = self.factor * FP32
        weights = self.attention[-1]
        return FusedAttention.apply(
            mixed, weights, queries, keys, values, self.unit, score_unit, self.generator
        )

    def block(self, x: Tensor, name: str) -> Tensor:
        return self.shaken(super().block(x, name))

    def __call__(self, ids: Tensor) -> Tensor:
        return self.shaken(super().__call__(ids))


Compute = Callable[[Any], Sequence[Tensor]]


class Exact(NamedTuple):
    """A result in float64, and how far another one may be from it, as a norm.

    wider: finds the bound again with more shaken models. A result is wrong only if it exceeds that bound, too.
    """

    value: Tensor
    bound: float
    wider: Callable[[], "Exact"] | None = None

    def with_slack(self, slack: float) -> "Exact":
        """The same, where a result may be so much farther away."""
        wider = self.wider
        again = None if wider is None else lambda: wider().with_slack(slack)
        return Exact(self.value, self.bound + slack, again)

    def check(self, got: Tensor, what: str) -> None:
        """AssertionError unless `got` is within the bound."""
        assert got.shape == self.value.shape, (
            f"{what}: expected shape {tuple(self.value.shape)}, got {tuple(got.shape)}"
        )
        difference = got.detach().double() - self.value
        error = float(difference.norm())
        if self.bound < math.inf and not error <= self.bound:
            if self.wider is not None:
                self.wider().check(got, what)
                return
            worst = int(difference.abs().nan_to_num(torch.inf).argmax())
            expected, found = self.value.flatten()[worst], got.flatten()[worst]
            raise AssertionError(
                f"{what}: expected {float(expected):.7g} at place {worst}, got {float(found):.7g}; "
                f"the norm of all differences is {error:.3g}, allowed {self.bound:.3g}"
            )


def exactly(
    compute: Compute,
    make: Callable[[], ShakenModel],
    unit: float,
    seed: int = 0,
    shaken: int = SHAKEN,
) -> list[Exact]:
    """The results of `compute(model)` in float64, each with its bound; `make` gives a new model.

    unit: the relative error of one rounding. A result that rounding alone decides, such as the gradient of the keys' biases,
    may be as far as one unit of all results together. The last operations after the model are not
    shaken; two units of the result allow for their rounding.
    """
    exact = [result.detach() for result in compute(make())]
    generator = torch.Generator().manual_seed(seed)
    errors = [0.0] * len(exact)
    # For a smooth function, small changes predict large ones. Attention to a single token jumps only under large ones.
    most = FACTORS.get(unit, FACTOR)
    for factor in [1.0] * shaken + [most] * shaken:
        model = make()
        model.shake(unit, generator, factor)
        for place, result in enumerate(compute(model)):
            error = float((result.detach() - exact[place]).norm()) / factor
            errors[place] = math.inf if math.isnan(error) else max(errors[place], error)
        if factor == 1.0 and not model.largest <= LARGEST[unit]:
            return [Exact(result, math.inf) for result in exact]
    together = float(sum(result.square().sum() for result in exact)) ** 0.5

    @functools.cache
    def wider() -> list[Exact]:
        return exactly(compute, make, unit, seed + 1, MORE_SHAKEN)

    found = []
    for place, (result, error) in enumerate(zip(exact, errors, strict=True)):
        bound = most * (error + unit * together / len(exact)) + 2 * unit * float(result.norm())
        again = functools.partial(_at, wider, place) if shaken < MORE_SHAKEN else None
        found.append(Exact(result, bound, again))
    return found


def _at(results: Callable[[], list[Exact]], place: int) -> Exact:
    return results()[place]
