"""The language model: embedding, positions, N blocks, norm, logits."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tinylm.kernels.training.low_blocks import GELU, LOOPED_GELU, RELU, LowFeedForward, add_dropped
from tinylm.model import initial
from tinylm.model.attention import SelfAttention, causal_mask
from tinylm.model.dropout import Dropout, fast_draws
from tinylm.model.kv_cache import KVCache
from tinylm.model.losses import output_loss, output_nats
from tinylm.model.norms import Norm
from tinylm.model.positions import sinusoids
from tinylm.model.recompute import run_blocks
from tinylm.model.settings import ModelSettings


class FeedForward(nn.Module):
    """activation(x W1 + b1) W2 + b2 (Vaswani et al. 2017, section 3.3).  (B, T, D) -> (B, T, D)"""

    def __init__(self, width: int, inner: int, activation: str, bias: bool) -> None:
        super().__init__()
        self.up = nn.Linear(width, inner, bias=bias)
        self.down = nn.Linear(inner, width, bias=bias)
        self.activation = F.relu if activation == "relu" else F.gelu
        self.looped = False

    def forward(self, x: Tensor) -> Tensor:
        if self.training and fast_draws(x):
            up, down, low = self.up, self.down, x.to(torch.get_autocast_dtype(x.device.type))
            activation = RELU if self.activation is F.relu else LOOPED_GELU if self.looped else GELU
            return LowFeedForward.apply(low, up.weight, up.bias, down.weight, down.bias, activation)
        return self.down(self.activation(self.up(x)))


class Block(nn.Module):
    """Attention and feed-forward, each with a residual and a norm before (pre) or after (post) it.

    pre: x + f(norm(x)) (Xiong et al. 2020);  post: norm(x + f(x)) (Vaswani et al. 2017).
    """

    def __init__(self, width: int, settings: ModelSettings) -> None:
        super().__init__()
        self.pre = settings.norm == "pre"
        self.norm1, self.norm2 = (Norm(width, settings.norm_kind, settings.norm_eps) for _ in range(2))
        self.attention = SelfAttention(
            width,
            settings.heads,
            settings.head_width,
            settings.dropout,
            settings.qkv_bias,
            settings.attention_bias,
        )
        self.feed_forward = FeedForward(width, settings.feed_forward, settings.activation, settings.feed_forward_bias)
        self.dropout = Dropout(settings.dropout)
        self.looped = False

    def forward(
        self,
        x: Tensor,
        mask: Tensor,
        cache: KVCache | None = None,
        layer: int = 0,
        positions: Tensor | None = None,
        maps: list[Tensor] | None = None,
    ) -> Tensor:
        if self.pre:
            x = self._add(x, self.attention(self.norm1(x, narrow=True), mask, cache, layer, positions, maps))
            return self._add(x, self.feed_forward(self.norm2(x, narrow=True)))
        x = self.norm1(self._add(x, self.attention(x, mask, cache, layer, positions, maps)))
        return self.norm2(self._add(x, self.feed_forward(x)))

    def _add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + dropout(y)"""
        if self.training and self.dropout.probability and fast_draws(x):
            return add_dropped(x, y, self.dropout.probability, self.looped)
        return x + self.dropout(y)


class TinyLM(nn.Module):
    """Decoder-only transformer over word ids.

    embedding: (V, D) float32, the start of the input vectors; trained on or frozen. Input vectors are brought to
    unit mean square by one fixed factor, so that vectors of any origin meet the positions at the same size.
    """

    positions: Tensor | None  # (T, D)
    embedding_scale: Tensor

    def __init__(self, settings: ModelSettings, embedding: Tensor) -> None:
        super().__init__()
        vocab_size, width = embedding.shape
        self.settings, self.vocab_size, self.width = settings, vocab_size, width
        self.recompute = "none"  # none | blocks | blocks+loss | sqrt: what the backward pass computes again
        self.looped = False
        self.compiled: Callable[[nn.Module, Tensor, Tensor], Tensor] | None = None  # runs a block while training
        self.embedding = nn.Parameter(embedding.clone().float(), requires_grad=settings.embedding == "tuned")
        if settings.positions == "learned":
            self.positions = nn.Parameter(torch.empty(settings.context, width))
        else:
            table = sinusoids(settings.context, width) if settings.positions == "sinusoids" else None
            self.register_buffer("positions", table, persistent=False)
        self.blocks = nn.ModuleList(Block(width, settings) for _ in range(settings.layers))
        self.final_norm = Norm(width, settings.norm_kind, settings.norm_eps) if settings.final_norm else nn.Identity()
        tied, bias = settings.tied_output, settings.output_bias
        self.output = None if tied else nn.Linear(width, vocab_size, bias=bias)
        self.output_bias = nn.Parameter(torch.zeros(vocab_size)) if tied and bias else None
        self.dropout = Dropout(settings.dropout)
        scale = self.embedding.detach().square().mean().clamp(min=1e-12).rsqrt()
        self.register_buffer("embedding_scale", scale)
        self._initialise()

    def _initialise(self) -> None:
        named = self.named_parameters()
        if self.settings.init == "scaled":
            initial.scaled(named, self.settings.layers)
        elif self.settings.init == "xavier":
            initial.xavier(named)
        else:
            initial.of_torch(named, self.width)

    def fuse_attention(self, fused: bool) -> None:
        """Whether torch computes the core of attention while training."""
        for module in self.modules():
            if isinstance(module, SelfAttention):
                module.fused = fused

    def use_loops(self, looped: bool) -> None:
        """Whether compiled loops (`tinylm.kernels.training`) do what they can of training in bfloat16 on a CPU."""
        for module in self.modules():
            if isinstance(module, TinyLM | Block | SelfAttention | FeedForward | Norm | Dropout):
                module.looped = looped

    def new_cache(self, rows: int, capacity: int | None = None) -> KVCache:
        """An empty cache for `rows` sequences of at most `capacity` tokens (the context by default)."""
        settings = self.settings
        inner = settings.head_width or -(-self.width // settings.heads)  # of the widest head
        capacity = capacity or settings.context
        return KVCache(settings.layers, rows, settings.heads, capacity, inner, self.embedding.detach())

    def vectors(self, ids: Tensor) -> Tensor:
        """Input vectors of the tokens, before positions are added.  (...) -> (..., D)"""
        return F.embedding(ids, self.embedding) * self.embedding_scale

    def hidden(
        self,
        ids: Tensor,
        positions: Tensor | None = None,
        cache: KVCache | None = None,
        maps: list[Tensor] | None = None,
    ) -> Tensor:
        """Hidden states after the last norm.  ids (B, T) -> (B, T, D)

        With a cache, `positions` (B, T) says where each token stands in its row (default 0..T-1, as without one).
        `maps` collects the attention weights of each layer, (B, H, T, S). Raises ValueError where a position lies
        past the context.
        """
        if cache is None or positions is None:
            positions = torch.arange(ids.shape[1], device=ids.device)[None]  # (1, T)
        if cache is None:
            slots = positions[0]
            last = ids.shape[1] - 1
        else:
            last = cache.admit(positions)
            slots = torch.arange(cache.used, device=ids.device)
        if last >= self.settings.context:
            raise ValueError(f"{last + 1} positions; the context holds {self.settings.context}")
        x = self.vectors(ids)
        if self.positions is not None:
            x = x + F.embedding(positions, self.positions)
        x = self.dropout(x)  # (B, T, D)
        mask = causal_mask(positions, slots, x.dtype)  # (B or 1, 1, T, S)
        if self.recompute != "none" and torch.is_grad_enabled() and cache is None and maps is None:
            return self.final_norm(run_blocks(list(self.blocks), x, mask, self.recompute))
        for layer, block in enumerate(self.blocks):
            if self.compiled is not None and self.training and cache is None and maps is None:
                x = self.compiled(block, x, mask)
                continue
            x = block(x, mask, cache, layer, positions, maps)
        return self.final_norm(x)

    def _output(self) -> tuple[Tensor, Tensor | None, float]:
        """The (V, D) output weights, the bias and a factor on the hidden states (tied vectors have their own size)."""
        if self.output is not None:
            return self.output.weight, self.output.bias, 1.0
        return self.embedding, self.output_bias, float(self.embedding_scale) * self.width**-0.5

    def block_matrices(self) -> dict[str, tuple[nn.Parameter, int]]:
        """The matrices of the blocks that learn, by name, each with how many maps lie in it one below another."""
        return {
            f"blocks.{name}": (parameter, 3 if ".qkv." in name else 1)  # queries, keys, values
            for name, parameter in self.blocks.named_parameters()
            if parameter.requires_grad and parameter.dim() == 2
        }

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores of every word of the vocabulary.  (..., D) -> (..., V)"""
        weight, bias, factor = self._output()
        return F.linear(hidden * factor, weight, bias)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of the next token at every position.  (B, T) -> (B, T, V)"""
        return self.logits(self.hidden(ids))

    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Sum of nats over the targets that are not negative.  (B, T), (B, T) -> scalar"""
        weight, bias, factor = self._output()
        hidden = self.hidden(inputs).flatten(0, 1) * factor
        twice = self.recompute == "blocks+loss"
        return output_loss(hidden, weight, bias, targets.flatten(), twice, self.looped)

    @torch.no_grad()
    def nats(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Loss of each target in nats, 0 at negative ones, for scoring.  (B, T), (B, T) -> (B, T)"""
        weight, bias, factor = self._output()
        hidden = self.hidden(inputs).flatten(0, 1) * factor
        return output_nats(hidden, weight, bias, targets.flatten()).view(targets.shape)
