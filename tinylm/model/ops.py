"""The formulas of the model in plain PyTorch, and `Ops`, whose methods faster versions override.

`tinylm.kernels.train` computes the same values faster or with less memory. You choose a model's
operations when you build it: `TinyLM(settings, embedding, ops=...)`.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tinylm.model.norms import NORMS

Activation = Callable[[Tensor], Tensor]
ACTIVATIONS: dict[str, Activation] = {"relu": F.relu, "gelu": F.gelu}
CHUNK_ROWS = 512  # rows of logits in memory at a time
TWO_BYTES = (torch.float16, torch.bfloat16)
ALIGNMENT = 8  # on CUDA, V is padded to a multiple of this, which tensor cores need to be fast


def apply_rotary(qkv: Tensor, rope_cache: Tensor) -> Tensor:
    """Rotate each pair of columns i and i + Dh / 2 of queries and keys by angle i of their position.

    The product of a query and a key then depends on their distance only (Su et al. 2021).
    (B, T, 3, H, Dh), (B or 1, T, 2, Dh / 2) -> (B, T, 3, H, Dh)
    """
    table = rope_cache[:, :, :, None, None]
    cos, sin = table.unbind(2)  # (B or 1, T, 1, 1, Dh / 2)
    queries_keys, values = qkv.split([2, 1], dim=2)
    first, second = queries_keys.chunk(2, dim=-1)
    rotated = [first * cos - second * sin, second * cos + first * sin]
    queries_keys = torch.cat(rotated, dim=-1).to(qkv.dtype)
    return torch.cat([queries_keys, values], dim=2)


def attention_weights(queries: Tensor, keys: Tensor, scale: float, mask: Tensor) -> Tensor:
    """softmax(scale Q K^T + mask).  (B, H, T, Dh), (B, H, S, Dh) -> (B, H, T, S)"""
    keys = keys.to(queries.dtype)
    scores = (queries * scale) @ keys.transpose(-2, -1)
    return torch.softmax(scores + mask, dim=-1)


def apply_attention(weights: Tensor, values: Tensor) -> Tensor:
    """Weighted sums of the values, heads concatenated.

    (B, H, T, S), (B, H, S, Dh) -> (B, T, H Dh)
    """
    mixed = weights.to(values.dtype) @ values  # (B, H, T, Dh)
    return mixed.transpose(1, 2).flatten(2)


def token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """-ln softmax(logits)[target] in nats.  (N, V), (N,) -> (N,)

    The loss of a negative target is 0: it is not scored. -ln p is computed as logsumexp(z) -
    z[target], which cannot overflow, since logsumexp subtracts the maximum first.
    """
    if logits.dtype != torch.float64:
        logits = logits.float()
    columns = targets.clamp(min=0)[:, None]
    chosen = logits.gather(-1, columns)[:, 0]
    loss = torch.logsumexp(logits, dim=-1) - chosen
    return loss * (targets >= 0)


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Sum of `token_loss`.  (N, V), (N,) -> scalar"""
    return token_loss(logits, targets).sum()


def output_token_loss(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
) -> Tensor:
    """token_loss(hidden weight^T + bias, targets), without all logits in memory at once.  -> (N,)"""
    words = len(weight)
    rows = CHUNK_ROWS
    if weight.is_cuda:
        padding = -words % ALIGNMENT
        weight = F.pad(weight, (0, 0, 0, padding))
        bias = None if bias is None else F.pad(bias, (0, padding))
        rows *= 4
    losses = []
    chunks = zip(hidden.split(rows), targets.split(rows), strict=True)
    for chunk, chosen in chunks:
        logits = F.linear(chunk, weight, bias)[:, :words]
        losses.append(token_loss(logits, chosen))
    return torch.cat(losses)


class Ops:
    """The reference: each operation as its formula, with gradients by autograd.

    B rows of T tokens, width D, H heads of width Dh, F outputs of a linear layer, V tokens in the
    vocabulary. dropout: the probability that an element is set to zero; the others
    are divided by 1 - dropout (Srivastava et al. 2014). draws_in_thread: whether all dropout draws
    from `dropout_generator()`, of which each thread can have its own; `RowThreads` needs this.
    """

    draws_in_thread = False

    def lookup(self, ids: Tensor, table: Tensor, is_output: bool) -> Tensor:
        """Rows of the table.  (...), (V, D) -> (..., D)

        is_output: whether the table is also the weight of the output layer.
        """
        return F.embedding(ids, table)

    def attention(
        self,
        qkv: Tensor,
        scale: float,
        mask: Tensor,
        dropout: float,
        rope_cache: Tensor | None = None,
    ) -> Tensor:
        """dropout(softmax(scale Q K^T + mask)) V, heads concatenated.

        With a rope_cache, `apply_rotary` comes first.
        qkv (B, T, 3, H, Dh), mask (B or 1, 1, T, T), rope_cache (1, T, 2, Dh / 2) -> (B, T, H Dh)
        """
        if rope_cache is not None:
            qkv = apply_rotary(qkv, rope_cache)
        queries, keys, values = qkv.permute(2, 0, 3, 1, 4)  # (B, H, T, Dh) each
        weights = attention_weights(queries, keys, scale, mask)
        return apply_attention(self.dropout(weights, dropout), values)

    def norm(self, x: Tensor, gain: Tensor, bias: Tensor | None, eps: float, kind: str) -> Tensor:
        """A norm of `norms.py` over the last axis, times gain, plus bias.  (..., D) -> (..., D)"""
        # In float16, the square of a number above 256 is infinite.
        exact = x.float() if x.dtype in TWO_BYTES else x
        normed = NORMS[kind].formula(exact, eps).to(x.dtype)
        return normed * gain if bias is None else torch.addcmul(bias, normed, gain)

    def linear(self, x: Tensor, layer: nn.Linear) -> Tensor:
        """layer(x).  (..., D) -> (..., F)"""
        result: Tensor = layer(x)  # called, so that hooks and replaced layers count
        return result

    def dropout(self, x: Tensor, dropout: float) -> Tensor:
        """Dropout of x."""
        return F.dropout(x, dropout) if dropout else x

    def add_dropout(self, x: Tensor, y: Tensor, dropout: float) -> Tensor:
        """x + dropout(y): the residual connection."""
        return x + self.dropout(y, dropout)

    def output_loss(
        self, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
    ) -> Tensor:
        """Cross-entropy of hidden weight^T + bias, summed over targets >= 0.

        (N, D), (V, D), (V,), (N,) -> scalar
        """
        return cross_entropy(F.linear(hidden, weight, bias), targets)


REFERENCE = Ops()
