"""Where our D residual channels are in the W channels of a stock architecture, so that its layer norm is our norm.

Stock layer norms have one epsilon and stock attention needs heads that divide the width. Both are met exactly:

- `scale` c: a norm of c x with epsilon e is a norm of x with epsilon e / c^2, so any epsilon can be obtained by scaling
  the stream.
- spare channels: what is written to the stream has its mean over the D channels removed, which layer norm subtracts
  anyway; then zero channels may be added. Over W channels the variance is share = D / W of ours.
- copies: [x, x, ...] has the mean and the variance of x, for when x itself must be kept (post-norm).
- copies: [x, x, ...] has the mean and the variance of x, where x itself must be kept (post-norm).
- opposites: [x, -x] has mean 0 and variance mean(x^2): its layer norm is an RMS norm (spare zeros may follow).
"""

import dataclasses
from collections.abc import Iterator

import torch
from torch import Tensor

from tinylm.model.ragged_heads import head_widths
from tinylm.model.settings import ModelSettings

EPSILON = 1e-5  # of every stock norm: that of OPT is fixed, and converters take GPT-2's for granted


@dataclasses.dataclass(frozen=True)
class Stream:
    """The residual stream of the stock model: `signs` times our D channels, then `spare` zero channels."""

    width: int
    signs: tuple[int, ...]
    spare: int
    heads: int
    centred: bool
    norm_eps: float

    @property
    def wide(self) -> int:
        """W, the stock model's width."""
        return len(self.signs) * self.width + self.spare

    @property
    def share(self) -> float:
        """The variance (mean square) over W as a share of ours over D."""
        return len(self.signs) * self.width / self.wide

    @property
    def scale(self) -> float:
        """c, so that EPSILON on the stream is norm_eps on x."""
        return (EPSILON / (self.share * self.norm_eps)) ** 0.5

    def write(self, x: Tensor, dim: int = -1) -> Tensor:
        """The stream's channels for x.  (..., D, ...) -> (..., W, ...)"""
        x = x.movedim(dim, -1)
        if self.centred:
            x = x - x.mean(-1, keepdim=True)
        parts = [*(x * sign for sign in self.signs), x.new_zeros(*x.shape[:-1], self.spare)]
        return (torch.cat(parts, -1) * self.scale).movedim(-1, dim)

    def first(self, x: Tensor) -> Tensor:
        """x on the first channels, zeros on the others.  (..., n) -> (..., W)"""
        return torch.nn.functional.pad(x, (0, self.wide - x.shape[-1]))

    def norm_out(self, gain: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """Gain and bias of a norm whose output is read through its first D channels.  (D), (D) -> (W), (W)"""
        return self.first(gain * self.share**0.5), self.first(bias)

    def norm_on(
        self, gain: Tensor, bias: Tensor, scale: float | None = None
    ) -> tuple[Tensor, Tensor]:
        """Gain and bias of a norm whose output is the stream itself, of size `scale`.  (D), (D) -> (W), (W)

        What is normed has the signs already; a bias never meets them, for an RMS norm has none.
        """
        scale = self.scale if scale is None else scale
        copies = len(self.signs)
        return self.first(gain.repeat(copies) * (scale * self.share**0.5)), self.first(
            bias.repeat(copies) * scale
        )

    def head_rows(self, rows: Tensor, heads: int, queries: bool = False) -> Tensor:
        """Rows of our heads at the places of the stock heads, zeros after each.  (inner, n) -> (W, n)

        Stock scores are divided by the root of the stock head's width, ours by that of our own: queries compensate.
        """
        own = head_widths(rows.shape[0], heads)
        room = self.wide // self.heads
        placed = rows.new_zeros(self.wide, rows.shape[1])
        for head, part in enumerate(rows.split(own)):
            size = (room / own[head]) ** 0.5 if queries else 1.0
            placed[head * room : head * room + own[head]] = part * size
        return placed


def _stock_heads(wide: int, heads: int, head_width: int) -> int | None:
    """The smallest number of heads of equal width with room for ours, or None. Heads past ours stay empty."""
    return next(
        (count for count in range(heads, wide // head_width + 1) if wide % count == 0), None
    )


def _shapes(width: int, kind: str, keeps_mean: bool) -> Iterator[tuple[tuple[int, ...], int]]:
    """Signs and spare channels to try, narrowest first."""
    steps = range(
        width * 20_000
    )  # finite: a large enough multiple of the heads comes long before its end
    if kind == "rms":
        return (((1, -1), spare) for spare in steps)
    if keeps_mean:
        return (((1,) * (1 + copies), 0) for copies in steps)
    return (((1,), spare) for spare in steps)


def new_stream(settings: ModelSettings, width: int, multiple: int = 1) -> Stream:
    """The narrowest stream that holds a model of this width, its heads and a channel for its output bias.

    Its width is a multiple of `multiple`.
    """
    keeps_mean = (
        settings.norm == "post" or not settings.final_norm
    )  # x itself is read, not only its norm
    widest = settings.head_width or -(-width // settings.heads)
    for signs, spare in _shapes(width, settings.norm_kind, keeps_mean):
        wide = len(signs) * width + spare
        heads = _stock_heads(wide, settings.heads, widest)
        if (
            heads is None
            or wide % multiple
            or (settings.output_bias and wide <= width + keeps_mean)
        ):
            continue
        centred = spare > 0 and settings.norm_kind == "layer"
        return Stream(width, signs, spare, heads, centred, settings.norm_eps)
    raise AssertionError("some multiple of the heads is wide enough")
