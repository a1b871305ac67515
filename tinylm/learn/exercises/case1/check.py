"""Oracle: PyTorch's causal attention in float64."""

import torch
from torch.nn.functional import scaled_dot_product_attention

from tinylm.learn.expect import drawn, expect, require


def masks(causal_mask):
    """the mask hides exactly the later positions"""
    for length in (1, 2, 3):
        visible = torch.ones(length, length, dtype=torch.float64).tril()
        answer = causal_mask(length, torch.float64)
        require(
            isinstance(answer, torch.Tensor) and answer.shape == visible.shape,
            "the mask must be (T, T)",
        )
        require(not (answer.exp() > visible).any(), "a row sees a later position",
                "position t predicts word t + 1, so it must not see t + 1", length=length, mask=answer)  # fmt: skip
        expect(lambda length, answer=answer: answer.exp(), {"length": length}, visible,
               {"a position may see itself, and all earlier ones": answer.exp()})  # fmt: skip


def equals_pytorch(attention):
    """attention equals PyTorch's"""
    for seed, length in enumerate((1, 2, 4)):
        names = ("queries", "keys", "values")
        given = {name: drawn(seed * 5 + i, 1, 1, length, 2) for i, name in enumerate(names)}
        expect(attention, given, scaled_dot_product_attention(*given.values(), is_causal=True), {
            "row 0 attends to position 1": scaled_dot_product_attention(
                *given.values(), attn_mask=torch.ones(length, length, dtype=torch.bool).tril(1)
            )
        })  # fmt: skip
