"""TinyLM for the library `transformers`, in one file that needs torch and transformers only.

Copied into a folder by `tinylm export --format tinylm` and run from there with
trust_remote_code=True. The weights keep the names that tinylm gives them; the settings are under
`model` in config.json.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import Cache, DynamicCache, GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

ACTIVATIONS: dict[str, Any] = {"relu": F.relu, "gelu": F.gelu}


class TinyLMConfig(PretrainedConfig):
    """`width`: of the embedding; `model`: section `model` of tinylm's params.yaml."""

    model_type = "tinylm"
    keys_to_ignore_at_inference = ("past_key_values",)

    def __init__(
        self, vocab_size: int = 1, width: int = 1, model: dict[str, Any] | None = None, **other: Any
    ) -> None:
        self.vocab_size = vocab_size
        self.width = width
        self.model = model or {}
        self.hidden_size = width
        self.num_hidden_layers = self.model.get("layers", 1)
        self.num_attention_heads = self.model.get("heads", 1)
        self.max_position_embeddings = self.model.get("context", 2)
        self.use_cache = other.pop("use_cache", True)
        # a tied output reads `embedding` itself: there is no second tensor
        other["tie_word_embeddings"] = False
        super().__init__(**other)


class Norm(nn.Module):
    """Layer norm, RMS norm, or std: (x - mean(x)) / (std(x) + eps), by the unbiased deviation."""

    def __init__(self, width: int, kind: str, eps: float) -> None:
        super().__init__()
        self.kind = kind
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(width))
        if kind != "rms":
            self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "layer":
            return F.layer_norm(x, x.shape[-1:], self.gain, self.bias, self.eps)
        if self.kind == "rms":
            return F.rms_norm(x, x.shape[-1:], self.gain, self.eps)
        deviation = x.std(-1, keepdim=True)
        centred = x - x.mean(-1, keepdim=True)
        return centred / (deviation + self.eps) * self.gain + self.bias


class Attention(nn.Module):
    """Masked multi-head self-attention.

    If the number of heads does not divide the width, head widths differ by one.
    """

    def __init__(self, width: int, model: dict[str, Any]) -> None:
        super().__init__()
        heads = model["heads"]
        inner = width if model["head_width"] is None else heads * model["head_width"]
        self.widths = [inner // heads + (head < inner % heads) for head in range(heads)]
        self.qkv = nn.Linear(width, 3 * inner, bias=model["qkv_bias"])
        self.out = nn.Linear(inner, width, bias=model["attention_bias"])
        self.dropout = model["dropout"]
        self.rotary = model["positions"] == "rotary"

    def _heads(self, x: Tensor) -> Tensor:
        """(B, T, inner) -> (B, H, T, Dh), zeros after narrower heads."""
        parts = x.split(self.widths, -1)
        widest = self.widths[0]
        return torch.stack([F.pad(part, (0, widest - part.shape[-1])) for part in parts], 1)

    def forward(
        self, x: Tensor, mask: Tensor, positions: Tensor, cache: Cache | None, layer: int
    ) -> Tensor:
        queries, keys, values = (self._heads(part) for part in self.qkv(x).chunk(3, -1))
        if self.rotary:
            queries = apply_rotary(queries, positions)
            keys = apply_rotary(keys, positions)
        if cache is not None:
            keys, values = cache.update(keys, values, layer)
        widths = torch.tensor(self.widths, dtype=torch.float64)
        scale = widths.rsqrt().to(x)[:, None, None]
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(
            queries * scale, keys, values, attn_mask=mask, dropout_p=dropout, scale=1.0
        ).unbind(1)  # H of (B, T, Dh)
        heads = [head[..., :width] for head, width in zip(mixed, self.widths, strict=True)]
        return self.out(torch.cat(heads, -1))


class FeedForward(nn.Module):
    def __init__(self, width: int, model: dict[str, Any]) -> None:
        super().__init__()
        self.up = nn.Linear(width, model["feed_forward"], bias=model["feed_forward_bias"])
        self.down = nn.Linear(model["feed_forward"], width, bias=model["feed_forward_bias"])
        self.activation: Any = ACTIVATIONS[model["activation"]]

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.activation(self.up(x)))


class Block(nn.Module):
    """pre: x + f(norm(x));  post: norm(x + f(x))."""

    def __init__(self, width: int, model: dict[str, Any]) -> None:
        super().__init__()
        self.pre = model["norm"] == "pre"
        self.dropout = model["dropout"]
        self.norm1 = Norm(width, model["norm_kind"], model["norm_eps"])
        self.norm2 = Norm(width, model["norm_kind"], model["norm_eps"])
        self.attention = Attention(width, model)
        self.feed_forward = FeedForward(width, model)

    def _add(self, x: Tensor, more: Tensor) -> Tensor:
        return x + F.dropout(more, self.dropout, self.training)

    def forward(
        self, x: Tensor, mask: Tensor, positions: Tensor, cache: Cache | None, layer: int
    ) -> Tensor:
        if self.pre:
            x = self._add(x, self.attention(self.norm1(x), mask, positions, cache, layer))
            return self._add(x, self.feed_forward(self.norm2(x)))
        x = self.norm1(self._add(x, self.attention(x, mask, positions, cache, layer)))
        return self.norm2(self._add(x, self.feed_forward(x)))


def angles(positions: Tensor, width: int) -> Tensor:
    """t / 10000^(2i / width) for i = 0, 1, ...  (...) -> (..., width / 2 rounded up) float64"""
    even = torch.arange(0, width, 2, dtype=torch.float64, device=positions.device)
    return positions[..., None].double() / 10000.0 ** (even / width)


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """The sine and the cosine of each angle, in turn.  (B, T) -> (B, T, D) float32"""
    angle = angles(positions, width)
    table = torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)
    return table[..., :width].float()


def apply_rotary(x: Tensor, positions: Tensor) -> Tensor:
    """Columns i and i + Dh / 2 rotated as a pair by angle i.  (B, H, T, Dh), (B, T) -> as x"""
    angle = angles(positions[:, None], x.shape[-1])
    cos = angle.cos().float().to(x.dtype)  # tinylm keeps its tables in float32
    sin = angle.sin().float().to(x.dtype)
    first, second = x.chunk(2, -1)
    rotated = first * cos - second * sin, second * cos + first * sin
    return torch.cat(rotated, -1)


def causal_mask(length: int, seen: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where the last `length` tokens may look, the least number elsewhere.

    seen (B, S) -> (B, 1, T, S)
    """
    slots = torch.arange(seen.shape[1], device=seen.device)
    is_earlier = slots <= slots[-length:, None]
    allowed = is_earlier & seen[:, None].bool()  # (B, T, S)
    mask = torch.zeros(allowed.shape, dtype=dtype, device=seen.device)
    return mask.masked_fill_(~allowed, torch.finfo(dtype).min)[:, None]


class TinyLMForCausalLM(PreTrainedModel, GenerationMixin):
    """Embedding, positions, blocks, norm, logits. It reads up to `context` tokens.

    Padding goes to the left.
    """

    config_class = TinyLMConfig
    base_model_prefix = ""
    main_input_name = "input_ids"
    embedding_scale: Tensor

    def __init__(self, config: TinyLMConfig) -> None:
        super().__init__(config)
        model = config.model
        width = config.width
        self.embedding = nn.Parameter(torch.randn(config.vocab_size, width))
        self.register_buffer("embedding_scale", torch.tensor(1.0))
        if model["positions"] == "learned":
            self.positions = nn.Parameter(torch.randn(model["context"], width))
        self.blocks = nn.ModuleList(Block(width, model) for _ in range(model["layers"]))
        self.final_norm: nn.Module = nn.Identity()
        if model["final_norm"]:
            self.final_norm = Norm(width, model["norm_kind"], model["norm_eps"])
        if not model["tied_output"]:
            self.output = nn.Linear(width, config.vocab_size, bias=model["output_bias"])
        elif model["output_bias"]:
            self.output_bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.post_init()

    def _vectors(self, ids: Tensor, positions: Tensor) -> Tensor:
        kind = self.config.model["positions"]
        x = F.embedding(ids, self.embedding) * self.embedding_scale
        if kind == "learned":
            x = x + F.embedding(positions, self.positions)
        elif kind == "sinusoids":
            x = x + sinusoids(positions, self.config.width).to(x.dtype)
        return F.dropout(x, self.config.model["dropout"], self.training)

    def _logits(self, hidden: Tensor) -> Tensor:
        if not self.config.model["tied_output"]:
            return self.output(hidden)
        factor = float(self.embedding_scale) * self.config.width**-0.5
        return F.linear(hidden * factor, self.embedding, getattr(self, "output_bias", None))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int = 0,
        **_: Any,
    ) -> CausalLMOutputWithPast:
        """Logits (B, T, V) of the next token; with labels (B, T) the mean loss in nats.

        Raises ValueError for more tokens than the context.
        """
        if use_cache is None:
            use_cache = self.config.use_cache
        if past_key_values is None and use_cache:
            past_key_values = DynamicCache()
        rows, length = input_ids.shape
        past = 0 if past_key_values is None else past_key_values.get_seq_length()
        seen = attention_mask  # (B, S)
        if seen is None:
            seen = input_ids.new_ones(rows, past + length)
        if position_ids is None:
            position_ids = (seen.long().cumsum(-1) - 1).clamp(min=0)
            position_ids = position_ids[:, -length:]
        context = self.config.model["context"]
        if int(position_ids.max()) >= context:
            raise ValueError(f"{int(position_ids.max()) + 1} tokens; the context is {context}")
        x = self._vectors(input_ids, position_ids)
        mask = causal_mask(length, seen, x.dtype)
        for layer, block in enumerate(self.blocks):
            x = block(x, mask, position_ids, past_key_values, layer)
        logits = self._logits(self.final_norm(x)[:, -logits_to_keep:])
        loss = None
        if labels is not None:
            scores = logits[:, :-1].flatten(0, 1).float()
            loss = F.cross_entropy(scores, labels[:, 1:].flatten())
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=past_key_values)
