"""Section `model`. Its imports are light, because params.yaml is checked without torch."""

import dataclasses

from tinylm.base.config import setting
from tinylm.model.norms import NORMS


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Section `model`: the architecture. The width D is that of the embedding matrix."""

    layers: int = setting(low=1, high=1000)
    heads: int = setting(low=1, high=10_000)
    head_width: int | None = setting(low=1, high=100_000)
    feed_forward: int = setting(low=1, high=1_000_000)
    context: int = setting(low=2, high=1_000_000)
    dropout: float = setting(low=0.0, high=0.99)
    norm: str = setting(choices=("pre", "post"))
    norm_kind: str = setting(choices=tuple(NORMS))
    norm_eps: float = setting(low=1e-12, high=1.0)  # float32 holds it beside a variance
    final_norm: bool = setting()
    positions: str = setting(choices=("sinusoids", "learned", "rotary", "none"))
    activation: str = setting(choices=("relu", "gelu"))
    init: str = setting(choices=("scaled", "xavier", "torch"))
    qkv_bias: bool = setting()
    attention_bias: bool = setting()
    tied_output: bool = setting()
    output_bias: bool = setting()
    embedding: str = setting(choices=("tuned", "frozen"))

    def width_of_heads(self, width: int) -> int:
        """Columns of one head, over an embedding of this width."""
        if self.head_width is not None:
            return self.head_width
        return width // self.heads

    def problems_with_width(self, width: int) -> list[str]:
        """Rules that need the embedding's width; each string starts with the key's path."""
        problems = []
        head_width = self.width_of_heads(width)
        if self.head_width is None and width % self.heads:
            problems.append(
                f"model.heads: expected a divisor of the width {width}, got {self.heads}; "
                f"or set model.head_width, for instance to {-(-width // self.heads)}"
            )
        elif self.positions == "rotary" and head_width % 2:
            problems.append(
                f"model.positions: rotary expects heads of even width, got {head_width}; "
                f"set model.head_width, for instance to {head_width + 1}"
            )
        least = NORMS[self.norm_kind].least_width
        if width < least:
            wanted = f"{self.norm_kind} expects a width of at least {least}"
            problems.append(f"model.norm_kind: {wanted}, got {width}")
        return problems
