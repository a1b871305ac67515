"""The interface for speed: the operations that a model calls while training, and their plain reference.

`tinylm.kernels.train` has implementations that compute the same values faster or with less memory. One is bound when
the model is built (`TinyLM(settings, embedding, ops=...)`); in evaluation mode the reference is used.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from tinylm.model.loss import cross_entropy
from tinylm.model.std_norm import inverse_std

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


class Ops(Protocol):
    """B rows of T tokens on width D; H heads of width Dh; F columns inside the feed-forward; V words.

    dropout is the probability with which a number becomes zero, 0 for none; kept ones are divided by 1 - dropout
    (Srivastava et al. 2014).
    """

    def lookup(self, ids: Tensor, table: Tensor, is_output: bool) -> Tensor:
        """The table's rows.  (...), (V, D) -> (..., D). is_output: it is the output layer's weight, too."""

    def attention(
        self, qkv: Tensor, scale: Tensor, mask: Tensor, dropout: float, turns: Tensor | None = None
    ) -> Tensor:
        """dropout(softmax(scale Q K^T + mask)) V, heads joined; Q and K are `turned` first if `turns` are given.

        (B, T, 3, H, Dh), (H, 1, 1), (B or 1, 1, T, T), (1, T, 2, Dh / 2) -> (B, T, H Dh)
        """

    def norm(
        self,
        x: Tensor,
        gain: Tensor,
        bias: Tensor | None,
        eps: float,
        kind: str,
        for_product: bool = False,
    ) -> Tensor:
        """`Norm` over the last axis. for_product: the result only meets matrices and may be rounded as they are."""

    def feed_forward(
        self,
        x: Tensor,
        up: Tensor,
        up_bias: Tensor | None,
        down: Tensor,
        down_bias: Tensor | None,
        activation: str,
    ) -> Tensor:
        """activation(x up^T + up_bias) down^T + down_bias.  (B, T, D), (F, D), (F,), (D, F), (D,) -> (B, T, D)"""

    def dropout(self, x: Tensor, dropout: float) -> Tensor:
        """x with numbers dropped."""

    def add_dropout(self, x: Tensor, y: Tensor, dropout: float) -> Tensor:
        """x + dropout(y): the residual connection."""

    def output_loss(
        self, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
    ) -> Tensor:
        """Cross-entropy of hidden weight^T + bias, summed over targets >= 0.  (N, D), (V, D), (V,), (N,) -> scalar"""


def turned(qkv: Tensor, table: Tensor) -> Tensor:
    """Columns i and i + Dh / 2 of queries and keys turned as a pair by their position's angle i.

    So a query's product with a key depends on their distance.  (B, T, 3, H, Dh), (B or 1, T, 2, Dh / 2) -> as the first
    """
    cos, sin = table[:, :, :, None, None].unbind(2)  # (B or 1, T, 1, 1, Dh / 2)
    first, second = qkv[:, :, :2].chunk(2, -1)
    pair = torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
    return torch.cat([pair.to(qkv.dtype), qkv[:, :, 2:]], 2)


def attention_weights(queries: Tensor, keys: Tensor, scale: Tensor, mask: Tensor) -> Tensor:
    """softmax(scale Q K^T + mask).  (B, H, T, Dh), (B, H, S, Dh) -> (B, H, T, S)"""
    scores = (queries * scale) @ keys.to(queries.dtype).transpose(-2, -1)
    return torch.softmax(scores + mask, dim=-1)


def mix_values(weights: Tensor, values: Tensor) -> Tensor:
    """Values summed by their weights, heads joined.  (B, H, T, S), (B, H, S, Dh) -> (B, T, H Dh)"""
    return (weights.to(values.dtype) @ values).transpose(1, 2).flatten(2)


class Reference:
    """Every operation as its formula says, gradients by autograd."""

    def lookup(self, ids: Tensor, table: Tensor, is_output: bool) -> Tensor:
        return F.embedding(ids, table)

    def attention(
        self, qkv: Tensor, scale: Tensor, mask: Tensor, dropout: float, turns: Tensor | None = None
    ) -> Tensor:
        qkv = qkv if turns is None else turned(qkv, turns)
        queries, keys, values = qkv.permute(2, 0, 3, 1, 4)  # (B, H, T, Dh) each
        return mix_values(
            self.dropout(attention_weights(queries, keys, scale, mask), dropout), values
        )

    def norm(
        self,
        x: Tensor,
        gain: Tensor,
        bias: Tensor | None,
        eps: float,
        kind: str,
        for_product: bool = False,
    ) -> Tensor:
        centred = x if kind == "rms" else x - x.mean(-1, keepdim=True)
        mean_square = centred.square().mean(-1, keepdim=True)
        inverse = inverse_std(centred, eps) if kind == "std" else (mean_square + eps).rsqrt()
        return (
            centred * inverse * gain
            if bias is None
            else torch.addcmul(bias, centred * inverse, gain)
        )

    def feed_forward(
        self,
        x: Tensor,
        up: Tensor,
        up_bias: Tensor | None,
        down: Tensor,
        down_bias: Tensor | None,
        activation: str,
    ) -> Tensor:
        return F.linear(ACTIVATIONS[activation](F.linear(x, up, up_bias)), down, down_bias)

    def dropout(self, x: Tensor, dropout: float) -> Tensor:
        return F.dropout(x, dropout) if dropout else x

    def add_dropout(self, x: Tensor, y: Tensor, dropout: float) -> Tensor:
        return x + self.dropout(y, dropout)

    def output_loss(
        self, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
    ) -> Tensor:
        return cross_entropy(F.linear(hidden, weight, bias), targets)


REFERENCE: Ops = Reference()
