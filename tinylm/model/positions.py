"""Where a token stands in the window."""

import torch
from torch import Tensor


def sinusoids(context: int, width: int) -> Tensor:
    """Fixed positional encodings (Vaswani et al. 2017, section 3.5), any width.  -> (T, D) float32

    P[t, 2i] = sin(t / 10000^(2i / D)),  P[t, 2i + 1] = cos(t / 10000^(2i / D)).
    """
    t = torch.arange(context, dtype=torch.float64)[:, None]
    even = torch.arange(0, width, 2, dtype=torch.float64)
    angle = t / 10000.0 ** (even / width)  # (T, ceil(D / 2))
    table = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)  # sine and cosine in turn
    return table[:, :width].float()
