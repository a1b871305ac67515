"""The language model: embedding, positions, N blocks of attention and feed-forward, norm, logits.

B rows of T tokens, width D, H heads of width Dh, V tokens in the vocabulary. The formulas of
attention, norms, dropout and the loss are in `tinylm.model.ops`. Faster versions of them can be
passed as `ops`.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tinylm.model.as_built import parts_of
from tinylm.model.initialisation import initialise
from tinylm.model.kv_cache import KVCache, LayerCache
from tinylm.model.norms import NORMS
from tinylm.model.ops import (
    ACTIVATIONS,
    REFERENCE,
    Ops,
    apply_attention,
    apply_rotary,
    attention_weights,
    cross_entropy,
    output_token_loss,
    token_loss,
)
from tinylm.model.settings import ModelSettings

RunBlocks = Callable[[Sequence[nn.Module], Tensor, Tensor], Tensor]


def position_angles(context: int, width: int) -> Tensor:
    """t / 10000^(2i / D) for position t and pair i of columns.  -> (T, ceil(D / 2)) float64"""
    t = torch.arange(context, dtype=torch.float64)[:, None]
    even = torch.arange(0, width, 2, dtype=torch.float64)
    return t / 10000.0 ** (even / width)


def sinusoids(context: int, width: int) -> Tensor:
    """Alternating sines and cosines (Vaswani et al. 2017, section 3.5).  -> (T, D)"""
    angles = position_angles(context, width)
    pairs = torch.stack([angles.sin(), angles.cos()], dim=-1)
    return pairs.flatten(1)[:, :width].float()


def rope_table(context: int, width: int) -> Tensor:
    """Cosines, then sines of the angles (Su et al. 2021, section 3.2.2).  -> (T, 2, Dh / 2)"""
    angles = position_angles(context, width)
    table = torch.stack([angles.cos(), angles.sin()], dim=1)
    return table.float()


def causal_mask(queries: Tensor, keys: Tensor, dtype: torch.dtype) -> Tensor:
    """0 at the keys that a query may attend to, -inf at later ones.

    positions (..., T), (S,) -> (..., 1, T, S)
    """
    later = keys > queries[..., None]
    mask = torch.zeros(later.shape, dtype=dtype, device=keys.device)
    return mask.masked_fill_(later, float("-inf")).unsqueeze(-3)


def has_hooks(module: nn.Module) -> bool:
    """Whether a call of this module does more than its forward pass."""
    return bool(module._forward_hooks or module._forward_pre_hooks)


class Norm(nn.Module):
    """formula(x) * gain + bias over the last axis, in the parameters' precision.  -> (..., D)

    `tinylm.model.norms` has the formula of each kind, and says whether there is a bias.
    """

    def __init__(self, width: int, settings: ModelSettings, ops: Ops) -> None:
        super().__init__()
        self.ops = ops
        self.kind = settings.norm_kind
        self.eps = settings.norm_eps
        self.gain = nn.Parameter(torch.ones(width))
        self.bias: nn.Parameter | None = None
        if NORMS[self.kind].has_bias:
            self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        x = x.to(self.gain.dtype)
        return self.ops.norm(x, self.gain, self.bias, self.eps, self.kind)


class SelfAttention(nn.Module):
    """Masked multi-head self-attention (Vaswani et al. 2017, section 3.2).  (B, T, D) -> (B, T, D)

    softmax(Q K^T / sqrt(Dh) + mask) V for each head, heads concatenated, then a linear output.
    rope_cache: `rope_table` of the context if positions are rotary, else None.
    """

    rope_cache: Tensor | None

    def __init__(self, width: int, settings: ModelSettings, ops: Ops) -> None:
        super().__init__()
        self.ops = ops
        self.heads = settings.heads
        self.head_width = settings.width_of_heads(width)
        self.scale = self.head_width**-0.5
        self.inner = self.heads * self.head_width
        self.qkv = nn.Linear(width, 3 * self.inner, bias=settings.qkv_bias)
        self.out = nn.Linear(self.inner, width, bias=settings.attention_bias)
        self.dropout = settings.dropout
        rope_cache = None
        if settings.positions == "rotary":
            rope_cache = rope_table(settings.context, self.head_width)
        self.register_buffer("rope_cache", rope_cache, persistent=False)

    def project(self, x: Tensor) -> Tensor:
        """Queries, keys and values.  (B, T, D) -> (B, T, 3, H, Dh)"""
        shape = (3, self.heads, self.head_width)
        return self.ops.linear(x, self.qkv).unflatten(-1, shape)

    def columns(self, head: int) -> slice:
        """The columns of `out.weight` (D, H Dh) that multiply a head's values."""
        return slice(head * self.head_width, (head + 1) * self.head_width)

    def forward(
        self,
        x: Tensor,
        mask: Tensor,
        layer_cache: LayerCache | None = None,
        attention_weights_out: list[Tensor] | None = None,
    ) -> Tensor:
        """Self-attention with an additive mask (B or 1, 1, T, S).  (B, T, D) -> (B, T, D)

        layer_cache: stores the new keys and values; attention then reads all S slots in use.
        attention_weights_out: a list to which the weights (B, H, T, S) are appended.
        """
        qkv = self.project(x)
        rope = self._rope_at_positions(x.shape[1], layer_cache)
        if layer_cache is None and attention_weights_out is None:
            dropout = self.dropout if self.training else 0.0
            mixed = self.ops.attention(qkv, self.scale, mask, dropout, rope)
            return self.ops.linear(mixed, self.out)
        if rope is not None:
            qkv = apply_rotary(qkv, rope)
        queries, keys, values = qkv.permute(2, 0, 3, 1, 4)  # (B, H, T, Dh) each
        if layer_cache is not None:
            keys, values = layer_cache.store(keys, values)
        weights = attention_weights(queries, keys, self.scale, mask)
        if attention_weights_out is not None:
            attention_weights_out.append(weights.detach())
        return self.ops.linear(apply_attention(weights, values), self.out)

    def _rope_at_positions(self, length: int, layer_cache: LayerCache | None) -> Tensor | None:
        """The tokens' rows of `rope_cache`, (B or 1, T, 2, Dh / 2); None if not rotary."""
        if self.rope_cache is None:
            return None
        if layer_cache is None:
            return self.rope_cache[None, :length]
        return self.rope_cache[layer_cache.positions]


class FeedForward(nn.Module):
    """activation(x W1 + b1) W2 + b2 (Vaswani et al. 2017, section 3.3).  (B, T, D) -> (B, T, D)"""

    def __init__(self, width: int, settings: ModelSettings, ops: Ops) -> None:
        super().__init__()
        self.ops = ops
        inner = settings.feed_forward
        self.up = nn.Linear(width, inner)
        self.down = nn.Linear(inner, width)
        self.activation = ACTIVATIONS[settings.activation]

    def forward(self, x: Tensor) -> Tensor:
        inner = self.ops.linear(x, self.up)
        return self.ops.linear(self.activation(inner), self.down)


class Block(nn.Module):
    """Attention and feed-forward, each with a residual connection and a norm.

    pre-norm: x + f(norm(x)) (Xiong et al. 2020);  post-norm: norm(x + f(x)) (Vaswani et al. 2017).
    """

    def __init__(self, width: int, settings: ModelSettings, ops: Ops) -> None:
        super().__init__()
        self.ops = ops
        self.is_pre_norm = settings.norm == "pre"
        self.dropout = settings.dropout
        self.norm1 = Norm(width, settings, ops)
        self.norm2 = Norm(width, settings, ops)
        self.attention = SelfAttention(width, settings, ops)
        self.feed_forward = FeedForward(width, settings, ops)

    def forward(
        self,
        x: Tensor,
        mask: Tensor,
        layer_cache: LayerCache | None = None,
        attention_weights_out: list[Tensor] | None = None,
    ) -> Tensor:
        """(B, T, D) -> (B, T, D); the arguments are those of `SelfAttention.forward`."""
        if self.is_pre_norm:
            y = self.attention(self.norm1(x), mask, layer_cache, attention_weights_out)
            x = self._add(x, y)
            return self._add(x, self.feed_forward(self.norm2(x)))
        y = self.attention(x, mask, layer_cache, attention_weights_out)
        x = self.norm1(self._add(x, y))
        return self.norm2(self._add(x, self.feed_forward(x)))

    def _add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + dropout(y)"""
        dropout = self.dropout if self.training else 0.0
        return self.ops.add_dropout(x, y, dropout)


def in_order(blocks: Sequence[nn.Module], x: Tensor, mask: Tensor) -> Tensor:
    """All blocks, one after another.  (B, T, D) -> (B, T, D)"""
    for block in blocks:
        x = block(x, mask)
    return x


class TinyLM(nn.Module):
    """Decoder-only transformer over token ids.

    embedding: (V, D), the initial input vectors. One fixed factor scales them to unit mean
    square, so that their scale is comparable to that of the positions. run_blocks: how training runs the
    blocks on whole windows: in order, or with activations recomputed.
    """

    positions: Tensor | None  # (T, D)
    embedding_scale: Tensor

    def __init__(
        self,
        settings: ModelSettings,
        embedding: Tensor,
        ops: Ops = REFERENCE,
        run_blocks: RunBlocks = in_order,
    ) -> None:
        super().__init__()
        self.settings = settings
        self.ops = ops
        self.run_blocks = run_blocks
        self.vocab_size, self.width = embedding.shape
        dtype = torch.get_default_dtype()  # float32, unless somebody asks for another
        self.embedding = nn.Parameter(embedding.contiguous().clone().to(dtype))
        self.embedding.requires_grad = settings.embedding == "tuned"
        if settings.positions == "learned":
            self.positions = nn.Parameter(torch.empty(settings.context, self.width))
        else:
            is_fixed = settings.positions == "sinusoids"
            table = sinusoids(settings.context, self.width) if is_fixed else None
            self.register_buffer("positions", table, persistent=False)
        blocks = [Block(self.width, settings, ops) for _ in range(settings.layers)]
        self.blocks = nn.ModuleList(blocks)
        self.final_norm: nn.Module = nn.Identity()
        if settings.final_norm:
            self.final_norm = Norm(self.width, settings, ops)
        self.output: nn.Linear | None = None
        self.output_bias: nn.Parameter | None = None
        if not settings.tied_output:
            self.output = nn.Linear(self.width, self.vocab_size, bias=settings.output_bias)
        elif settings.output_bias:
            self.output_bias = nn.Parameter(torch.zeros(self.vocab_size))
        mean_square = self.embedding.detach().square().mean()
        self.register_buffer("embedding_scale", mean_square.clamp(min=1e-12).rsqrt())
        initialise(self, settings, self.width)
        self.as_built = parts_of(self)

    def new_cache(self, rows: int, capacity: int | None = None) -> KVCache:
        """An empty cache for `rows` sequences of at most `capacity` tokens (default: the context)."""
        settings = self.settings
        return KVCache(
            layers=settings.layers,
            rows=rows,
            heads=settings.heads,
            capacity=capacity or settings.context,
            head_width=settings.width_of_heads(self.width),
            like=self.embedding.detach(),
        )

    def embed_tokens(self, ids: Tensor) -> Tensor:
        """Input vectors of the tokens, without positions.  (...) -> (..., D)"""
        vectors = self.ops.lookup(ids, self.embedding, is_output=self.output is None)
        return vectors * self.embedding_scale

    def hidden_states(
        self,
        ids: Tensor,
        positions: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Hidden states after the last norm.  ids (B, T) -> (B, T, D)

        With a cache, `positions` (B, T) are the tokens' places in their rows, by default 0..T-1;
        without one they are always 0..T-1. Raises ValueError if a position is past the context, or
        if there are positions without a cache.
        """
        positions, slots = self._positions_and_slots(ids, positions, cache)
        x = self._embed(ids, positions)
        mask = causal_mask(positions, slots, x.dtype)  # (B or 1, 1, T, S)
        if cache is not None:
            for layer, block in enumerate(self.blocks):
                x = block(x, mask, LayerCache(cache, layer, positions))
        elif self.training:
            x = self.run_blocks(list(self.blocks), x, mask)
        else:
            for block in self.blocks:  # unlike `in_order`, this frees each block's input
                x = block(x, mask)
        return self.final_norm(x)

    def hidden_states_and_attention(self, ids: Tensor) -> tuple[Tensor, list[Tensor]]:
        """`hidden_states(ids)`, and the attention weights (B, H, T, T) of each layer.

        ids (B, T). Attention is computed by its plain formula, without dropout of the weights.
        """
        positions, slots = self._positions_and_slots(ids)
        x = self._embed(ids, positions)
        mask = causal_mask(positions, slots, x.dtype)
        weights: list[Tensor] = []
        for block in self.blocks:
            x = block(x, mask, attention_weights_out=weights)
        return self.final_norm(x), weights

    def _positions_and_slots(
        self, ids: Tensor, positions: Tensor | None = None, cache: KVCache | None = None
    ) -> tuple[Tensor, Tensor]:
        """The tokens' positions (B or 1, T), and those of the keys that attention reads, (S,).

        Reserves the positions in the cache; its slots are the positions of its keys.
        """
        if positions is not None and cache is None:
            raise ValueError("positions need a cache: without one they are 0..T-1")
        length = ids.shape[1]
        if positions is None:
            positions = torch.arange(length, device=ids.device)[None]  # (1, T)
        last = length - 1 if cache is None else cache.reserve(positions)
        if last >= self.settings.context:
            raise ValueError(f"{last + 1} positions, but the context holds {self.settings.context}")
        if cache is None:
            return positions, positions[0]
        return positions, torch.arange(cache.used, device=ids.device)

    def _embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Input of the first block: vectors of tokens and positions, with dropout.  -> (B, T, D)"""
        x = self.embed_tokens(ids)
        if self.positions is not None:
            x = x + F.embedding(positions, self.positions).to(x.dtype)
        dropout = self.settings.dropout if self.training else 0.0
        return self.ops.dropout(x, dropout)

    def output_layer(self) -> tuple[Tensor, Tensor | None, float | Tensor]:
        """The (V, D) output weights, the bias, and a factor on the hidden states.

        The factor is 1 unless the output weights are the embedding, whose scale differs.
        """
        if self.output is not None:
            return self.output.weight, self.output.bias, 1.0
        # A tensor, not a Python number, which would have to wait for the device.
        factor = self.embedding_scale.double() * self.width**-0.5
        return self.embedding, self.output_bias, factor

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores of every token of the vocabulary.  (..., D) -> (..., V)"""
        if self.output is not None:
            scores: Tensor = self.output(hidden)
            return scores
        weight, bias, factor = self.output_layer()
        return F.linear(hidden * factor, weight, bias)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of the next token at every position.  (B, T) -> (B, T, V)"""
        return self.logits(self.hidden_states(ids))

    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy in nats, summed over targets >= 0.  (B, T), (B, T) -> scalar"""
        if self._calls_output():
            return cross_entropy(self(inputs).flatten(0, 1), targets.flatten())
        weight, bias, factor = self.output_layer()
        hidden = self.hidden_states(inputs).flatten(0, 1) * factor
        return self.ops.output_loss(hidden, weight, bias, targets.flatten())

    def _calls_output(self) -> bool:
        """Whether the output layer is hooked or replaced, so that its weights alone would not do."""
        layer = self.output
        if layer is None:
            return False
        return type(layer) is not nn.Linear or has_hooks(layer) or "forward" in vars(layer)

    @torch.no_grad()
    def token_loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Loss of each target in nats, 0 where it is negative.  (B, T), (B, T) -> (B, T)"""
        if self._calls_output():
            losses = token_loss(self(inputs).flatten(0, 1), targets.flatten())
            return losses.view(targets.shape)
        weight, bias, factor = self.output_layer()
        hidden = self.hidden_states(inputs).flatten(0, 1) * factor
        losses = output_token_loss(hidden, weight, bias, targets.flatten())
        return losses.view(targets.shape)


def block_matrices(model: nn.Module) -> dict[str, tuple[nn.Parameter, int]]:
    """Trainable matrices of the blocks by name, each with the number of linear maps it stacks."""
    matrices = {}
    for name, parameter in model.named_parameters():
        if name.startswith("blocks.") and parameter.requires_grad and parameter.dim() == 2:
            maps = 3 if ".qkv." in name else 1  # queries, keys, values
            matrices[name] = (parameter, maps)
    return matrices
