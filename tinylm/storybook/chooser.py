"""Choices with integer weights, and the sampler that adds up the exact log-probability of its picks."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any


class Weighted:
    """A finite distribution: option i has probability weights[i] / total, all integers."""

    __slots__ = ("_restricted", "cumulative", "logs", "options", "total", "weights")

    def __init__(self, options: Sequence[Any], weights: Sequence[int]):
        if not options or len(options) != len(weights) or min(weights) < 1:
            raise ValueError(
                f"needs options with positive integer weights, got {len(options)}: {weights!r}"
            )
        self.options = tuple(options)
        self.weights = tuple(weights)
        self.cumulative = tuple(accumulate(weights))
        self.total = self.cumulative[-1]
        self.logs = tuple(math.log(weight / self.total) for weight in weights)
        self._restricted: dict[tuple[int, ...], Weighted] = {}

    def restrict(self, allowed: tuple[int, ...]) -> Weighted:
        """The distribution given that the option is one of the indices in allowed."""
        if len(allowed) == len(self.options):
            return self
        if allowed not in self._restricted:
            options = [self.options[i] for i in allowed]
            self._restricted[allowed] = Weighted(options, [self.weights[i] for i in allowed])
        return self._restricted[allowed]

    def log_prob(self, index: int, banned: tuple[int, ...] = ()) -> float:
        """ln P(option index | no option of banned)."""
        if not banned:
            return self.logs[index]
        return math.log(self.weights[index] / (self.total - sum(self.weights[i] for i in banned)))


class Sampler:
    """Draws by integers only, so that a seed gives the same stories on every machine and Python hash seed."""

    def __init__(self, seed: str):
        self._bits = random.Random(seed).getrandbits
        self.log_prob = 0.0

    def pick(self, weighted: Weighted, banned: tuple[int, ...] = ()) -> int:
        """Index of one option; a banned one is drawn again, which keeps the proportions of the others."""
        while True:
            index = bisect_right(weighted.cumulative, self._bits(64) * weighted.total >> 64)
            if index not in banned:
                self.log_prob += weighted.log_prob(index, banned)
                return index
