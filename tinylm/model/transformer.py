"""The language model: embedding, positions, N blocks of attention and feed-forward, norm, logits.

B rows of T tokens, width D, H heads of width Dh, V words. The model knows nothing about speed: what it computes while
training goes through the operations of `ops`, bound when it is built.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tinylm.model.kv_cache import KVCache, Storing
from tinylm.model.loss import output_token_loss
from tinylm.model.ops import REFERENCE, Ops, attention_weights, mix_values, turned
from tinylm.model.settings import ModelSettings

RunBlocks = Callable[[Sequence[nn.Module], Tensor, Tensor], Tensor]


def sinusoids(context: int, width: int) -> Tensor:
    """Fixed positional encodings (Vaswani et al. 2017, section 3.5), any width.  -> (T, D) float32

    P[t, 2i] = sin(t / 10000^(2i / D)),  P[t, 2i + 1] = cos(t / 10000^(2i / D)).
    """
    t = torch.arange(context, dtype=torch.float64)[:, None]
    even = torch.arange(0, width, 2, dtype=torch.float64)
    angle = t / 10000.0 ** (even / width)  # (T, ceil(D / 2))
    table = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)  # sine and cosine in turn
    return table[:, :width].float()


def rotations(context: int, width: int) -> Tensor:
    """Cosines and sines of the angles t / 10000^(2i / Dh) (Su et al. 2021, section 3.2.2).  -> (T, 2, Dh / 2)"""
    t, even = (
        torch.arange(context, dtype=torch.float64)[:, None],
        torch.arange(0, width, 2, dtype=torch.float64),
    )
    angle = t / 10000.0 ** (even / width)
    return torch.stack([angle.cos(), angle.sin()], 1).float()


def causal_mask(queries: Tensor, keys: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where a query may look, -inf at later positions.  positions (..., T), (S,) -> (..., 1, T, S)"""
    later = keys > queries[..., None]
    mask = torch.zeros(later.shape, dtype=dtype, device=keys.device).masked_fill_(
        later, float("-inf")
    )
    return mask.unsqueeze(-3)


class Part(nn.Module):
    """A part of the model. While training, its operations are those bound at construction, otherwise the reference."""

    def __init__(self, ops: Ops) -> None:
        super().__init__()
        self._bound = ops

    @property
    def ops(self) -> Ops:
        return self._bound if self.training else REFERENCE


class Norm(Part):
    """Normalisation over the last axis, computed in the parameters' precision.  (..., D) -> (..., D)

    layer: (x - mean(x)) / sqrt(var(x) + eps) * gain + bias, with the biased variance (Ba et al. 2016, eq. 3-4)
    rms:   x / sqrt(mean(x^2) + eps) * gain (Zhang and Sennrich 2019, eq. 4)
    std:   (x - mean(x)) / (std(x) + eps) * gain + bias, with the unbiased standard deviation (from two columns on)
    """

    def __init__(
        self, width: int, kind: str = "layer", eps: float = 1e-5, ops: Ops = REFERENCE
    ) -> None:
        super().__init__(ops)
        self.kind, self.eps = kind, eps
        self.gain = nn.Parameter(torch.ones(width))
        self.bias = None if kind == "rms" else nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor, for_product: bool = False) -> Tensor:
        return self.ops.norm(
            x.to(self.gain.dtype), self.gain, self.bias, self.eps, self.kind, for_product
        )


class SelfAttention(Part):
    """Masked multi-head self-attention (Vaswani et al. 2017, section 3.2), all heads in one product.

    softmax(Q K^T / sqrt(Dh) + mask) V for each head, heads joined, then a linear output.  (B, T, D) -> (B, T, D)
    """

    scale: Tensor
    turns: Tensor | None

    def __init__(
        self, width: int, inner: int, heads: int, bias: bool = True, out_bias: bool = True, dropout: float = 0.0,
        ops: Ops = REFERENCE,
    ) -> None:  # fmt: skip
        super().__init__(ops)
        self.heads, self.inner, self.head_width = heads, inner, inner // heads
        self.qkv = nn.Linear(width, 3 * inner, bias=bias)
        self.out = nn.Linear(inner, width, bias=out_bias)
        self.dropout = dropout
        self.register_buffer(
            "scale", torch.full((heads, 1, 1), self.head_width**-0.5), persistent=False
        )
        self.register_buffer(
            "turns", None, persistent=False
        )  # `rotations` of the context, if positions are rotary

    def project(self, x: Tensor) -> Tensor:
        """Queries, keys and values.  (B, T, D) -> (B, T, 3, H, Dh)"""
        return self.qkv(x).unflatten(-1, (3, self.heads, self.head_width))

    def join(self, mixed: Tensor) -> Tensor:
        """The linear output over all heads.  (B, T, H Dh) -> (B, T, D)"""
        return self.out(mixed)

    def columns(self, head: int) -> slice:
        """The columns where a head's values meet the output matrix `out.weight` (D, inner)."""
        return slice(head * self.head_width, (head + 1) * self.head_width)

    def forward(
        self,
        x: Tensor,
        mask: Tensor,
        store: Storing | None = None,
        maps: list[Tensor] | None = None,
    ) -> Tensor:
        """Attend over x (B, T, D) under an additive mask (B or 1, 1, T, S).

        store: keeps the new keys and values in a cache and returns those of all its S slots. `maps` collects the
        weights (B, H, T, S).
        """
        qkv, turns = self.project(x), self.turns
        if turns is not None:
            turns = turns[None, : x.shape[1]] if store is None else turns[store.positions]
        if store is None and maps is None:
            return self.join(
                self.ops.attention(
                    qkv, self.scale, mask, self.dropout if self.training else 0.0, turns
                )
            )
        if turns is not None:
            qkv = turned(qkv, turns)
        queries, keys, values = qkv.permute(2, 0, 3, 1, 4)  # (B, H, T, Dh) each
        if store is not None:
            keys, values = store(keys, values)
        weights = attention_weights(queries, keys, self.scale, mask)
        if maps is not None:
            maps.append(weights.detach())
        return self.join(mix_values(weights, values))


class FeedForward(Part):
    """activation(x W1 + b1) W2 + b2 (Vaswani et al. 2017, section 3.3).  (B, T, D) -> (B, T, D)"""

    def __init__(
        self, width: int, inner: int, activation: str, bias: bool, ops: Ops = REFERENCE
    ) -> None:
        super().__init__(ops)
        self.up = nn.Linear(width, inner, bias=bias)
        self.down = nn.Linear(inner, width, bias=bias)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        up, down = self.up, self.down
        return self.ops.feed_forward(x, up.weight, up.bias, down.weight, down.bias, self.activation)


class Block(Part):
    """Attention and feed-forward, each with a residual connection and a norm before (pre) or after (post) it.

    pre-norm: x + f(norm(x)) (Xiong et al. 2020);  post-norm: norm(x + f(x)) (Vaswani et al. 2017).
    """

    def __init__(self, width: int, settings: ModelSettings, ops: Ops = REFERENCE) -> None:
        super().__init__(ops)
        self.pre, self.dropout = settings.norm == "pre", settings.dropout
        self.norm1, self.norm2 = (
            Norm(width, settings.norm_kind, settings.norm_eps, ops) for _ in range(2)
        )
        self.attention = _attention(width, settings, ops)
        inner, bias = settings.feed_forward, settings.feed_forward_bias
        self.feed_forward = FeedForward(width, inner, settings.activation, bias, ops)

    def forward(
        self,
        x: Tensor,
        mask: Tensor,
        store: Storing | None = None,
        maps: list[Tensor] | None = None,
    ) -> Tensor:
        if self.pre:
            x = self._add(x, self.attention(self.norm1(x, for_product=True), mask, store, maps))
            return self._add(x, self.feed_forward(self.norm2(x, for_product=True)))
        x = self.norm1(self._add(x, self.attention(x, mask, store, maps)))
        return self.norm2(self._add(x, self.feed_forward(x)))

    def _add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + dropout(y)"""
        return self.ops.add_dropout(x, y, self.dropout if self.training else 0.0)


def _attention(width: int, settings: ModelSettings, ops: Ops) -> SelfAttention:
    inner = width if settings.head_width is None else settings.heads * settings.head_width
    kind: type[SelfAttention] = SelfAttention
    if inner % settings.heads:  # imported only for shapes that need it
        from tinylm.model.ragged_heads import RaggedSelfAttention

        kind = RaggedSelfAttention
    return kind(
        width,
        inner,
        settings.heads,
        settings.qkv_bias,
        settings.attention_bias,
        settings.dropout,
        ops,
    )


def in_order(blocks: Sequence[nn.Module], x: Tensor, mask: Tensor) -> Tensor:
    """All blocks, one after another.  (B, T, D) -> (B, T, D)"""
    for block in blocks:
        x = block(x, mask)
    return x


class TinyLM(Part):
    """Decoder-only transformer over word ids.

    embedding: (V, D) float32, the start of the input vectors; trained further or frozen. Input vectors are brought to
    unit mean square by one fixed factor, so that vectors of any origin meet the positions at the same size.
    run_blocks: how a whole window passes through the blocks: plainly, recomputing activations, or compiled.
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
        super().__init__(ops)
        vocab_size, width = embedding.shape
        self.settings, self.vocab_size, self.width, self.run_blocks = (
            settings,
            vocab_size,
            width,
            run_blocks,
        )
        self.embedding = nn.Parameter(
            embedding.clone().float(), requires_grad=settings.embedding == "tuned"
        )
        if settings.positions == "learned":
            self.positions = nn.Parameter(torch.empty(settings.context, width))
        else:
            table = (
                sinusoids(settings.context, width) if settings.positions == "sinusoids" else None
            )
            self.register_buffer("positions", table, persistent=False)
        self.blocks = nn.ModuleList(Block(width, settings, ops) for _ in range(settings.layers))
        for part in self.modules() if settings.positions == "rotary" else ():
            if isinstance(part, SelfAttention):
                part.turns = rotations(settings.context, part.head_width)
        norm = settings.norm_kind, settings.norm_eps
        self.final_norm = Norm(width, *norm, ops) if settings.final_norm else nn.Identity()
        tied, bias = settings.tied_output, settings.output_bias
        self.output = None if tied else nn.Linear(width, vocab_size, bias=bias)
        self.output_bias = nn.Parameter(torch.zeros(vocab_size)) if tied and bias else None
        scale = self.embedding.detach().square().mean().clamp(min=1e-12).rsqrt()
        self.register_buffer("embedding_scale", scale)
        initialise(self)

    def new_cache(self, rows: int, capacity: int | None = None) -> KVCache:
        """An empty cache for `rows` sequences of at most `capacity` tokens (the context by default)."""
        settings = self.settings
        widest = settings.head_width or -(-self.width // settings.heads)
        capacity = capacity or settings.context
        return KVCache(
            settings.layers, rows, settings.heads, capacity, widest, self.embedding.detach()
        )

    def vectors(self, ids: Tensor) -> Tensor:
        """Input vectors of the tokens, before positions are added.  (...) -> (..., D)"""
        return self.ops.lookup(ids, self.embedding, self.output is None) * self.embedding_scale

    def hidden(
        self, ids: Tensor, positions: Tensor | None = None, cache: KVCache | None = None,
        maps: list[Tensor] | None = None,
    ) -> Tensor:  # fmt: skip
        """Hidden states after the last norm.  ids (B, T) -> (B, T, D)

        With a cache, `positions` (B, T) says where each token is in its row (default 0..T-1, as without one).
        `maps` collects the attention weights of each layer, (B, H, T, S). Raises ValueError if a position is
        past the context.
        """
        if cache is None or positions is None:
            positions = torch.arange(ids.shape[1], device=ids.device)[None]  # (1, T)
        last = ids.shape[1] - 1 if cache is None else cache.admit(positions)
        if last >= self.settings.context:
            raise ValueError(f"{last + 1} positions; the context holds {self.settings.context}")
        x = self.vectors(ids)
        if self.positions is not None:
            x = x + F.embedding(positions, self.positions)
        x = self.ops.dropout(x, self.settings.dropout if self.training else 0.0)  # (B, T, D)
        slots = positions[0] if cache is None else torch.arange(cache.used, device=ids.device)
        mask = causal_mask(positions, slots, x.dtype)  # (B or 1, 1, T, S)
        if cache is None and maps is None:
            return self.final_norm(self.run_blocks(list(self.blocks), x, mask))
        for layer, block in enumerate(self.blocks):
            x = block(x, mask, None if cache is None else cache.storing(layer, positions), maps)
        return self.final_norm(x)

    def output_layer(self) -> tuple[Tensor, Tensor | None, float]:
        """The (V, D) output weights, the bias and a factor on the hidden states (tied vectors have their own scale)."""
        if self.output is not None:
            return self.output.weight, self.output.bias, 1.0
        return self.embedding, self.output_bias, float(self.embedding_scale) * self.width**-0.5

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores of every word of the vocabulary.  (..., D) -> (..., V)"""
        weight, bias, factor = self.output_layer()
        return F.linear(hidden * factor, weight, bias)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of the next token at every position.  (B, T) -> (B, T, V)"""
        return self.logits(self.hidden(ids))

    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Sum of the loss in nats over the targets that are not negative.  (B, T), (B, T) -> scalar"""
        weight, bias, factor = self.output_layer()
        return self.ops.output_loss(
            self.hidden(inputs).flatten(0, 1) * factor, weight, bias, targets.flatten()
        )

    @torch.no_grad()
    def token_loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Loss of each target in nats, 0 at negative ones, for scoring.  (B, T), (B, T) -> (B, T)"""
        weight, bias, factor = self.output_layer()
        hidden = self.hidden(inputs).flatten(0, 1) * factor
        return output_token_loss(hidden, weight, bias, targets.flatten()).view(targets.shape)


def initialise(model: TinyLM) -> None:
    """Fresh weights, by `model.init`; the word vectors stay as they were given.

    scaled: normal of variance 1 / fan-in, over sqrt(2 N) at the end of a residual branch; biases zero; learned
    positions of mean square 1/2, as sinusoids have.
    xavier: uniform within sqrt(6 / (fan-in + fan-out)) (Glorot and Bengio 2010, eq. 16), query, key and value a matrix
    each, learned positions too; biases zero.
    torch: what PyTorch's layers start from: a linear one uniform within 1 / sqrt(fan-in), bias too, a table N(0, 1).
    """
    kind, depth = model.settings.init, 2 * model.settings.layers
    for name, parameter in model.named_parameters():
        matrix = parameter.dim() == 2 and name != "embedding"
        if kind == "torch":
            if name == "positions":
                nn.init.normal_(parameter)
            elif name == "output_bias":
                nn.init.uniform_(parameter, -(model.width**-0.5), model.width**-0.5)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif matrix and kind == "xavier":
            for part in parameter.chunk(3 if name.endswith("qkv.weight") else 1):
                bound = (6 / sum(part.shape)) ** 0.5
                nn.init.uniform_(part, -bound, bound)
        elif name == "positions":
            nn.init.normal_(parameter, std=0.5**0.5)
        elif matrix:
            last = name.endswith(("attention.out.weight", "feed_forward.down.weight"))
            nn.init.normal_(
                parameter, std=parameter.shape[1] ** -0.5 / (depth**0.5 if last else 1.0)
            )


def block_matrices(model: nn.Module) -> dict[str, tuple[nn.Parameter, int]]:
    """The matrices of a model's blocks that learn, by name, each with how many maps are stacked in it."""
    return {
        name: (parameter, 3 if ".qkv." in name else 1)  # queries, keys, values
        for name, parameter in model.named_parameters()
        if name.startswith("blocks.") and parameter.requires_grad and parameter.dim() == 2
    }
