import torch
from torch import Tensor


class Cache:
    """Keys and values of earlier tokens, in buffers of fixed size."""

    def __init__(self, batch: int, heads: int, capacity: int, head_width: int) -> None:
        self.used = 0
        raise NotImplementedError

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store T new keys and values; all that are filled.  (B, H, T, Dh) -> (B, H, S, Dh)"""
        raise NotImplementedError


def attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Causal attention of the last T of S positions.  (B, H, T, Dh), (B, H, S, Dh) -> (B, H, T, Dh)"""
    raise NotImplementedError
