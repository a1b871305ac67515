import pytest
import torch

from tests.support.small import model_settings
from tinylm.model.ops import REFERENCE
from tinylm.model.transformer import SelfAttention, causal_mask

B, T = 3, 11


def new_attention(width: int, **settings) -> SelfAttention:
    attention = SelfAttention(width, model_settings(**settings), REFERENCE)
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.copy_(torch.randn(parameter.shape) / parameter.shape[-1] ** 0.5)
    return attention.double()


def mask() -> torch.Tensor:
    positions = torch.arange(T)
    return causal_mask(positions[None], positions, torch.float64)


def head_by_head(attention: SelfAttention, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The definition, one head after the other: output (B, T, D) and maps (B, H, T, T)."""
    queries, keys, values = attention.qkv(x).chunk(3, dim=-1)
    allowed = torch.ones(T, T).tril().bool()
    width = queries.shape[-1] // attention.heads
    mixed, maps = [], []
    for head in range(attention.heads):
        part = slice(head * width, (head + 1) * width)
        scores = queries[..., part] @ keys[..., part].transpose(1, 2) / width**0.5
        weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
        mixed.append(weights @ values[..., part])
        maps.append(weights)
    return attention.out(torch.cat(mixed, -1)), torch.stack(maps, 1)


@pytest.mark.parametrize(
    ("width", "heads", "head_width", "bias"),
    [(12, 3, None, True), (300, 8, 38, False), (7, 3, 11, True), (19, 1, None, False)],
)
def test_attention_is_the_definition_head_by_head(width, heads, head_width, bias):
    biases = {"qkv_bias": bias, "attention_bias": bias}
    attention = new_attention(width, heads=heads, head_width=head_width, **biases)
    x = torch.randn(B, T, width, dtype=torch.float64, requires_grad=True)
    maps: list[torch.Tensor] = []
    output = attention(x, mask(), attention_weights_out=maps)
    wanted, wanted_maps = head_by_head(attention, x)
    torch.testing.assert_close(output, wanted, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(attention(x, mask()), wanted, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(maps[0], wanted_maps, rtol=1e-11, atol=1e-11)
    inputs = [x, *attention.parameters()]
    gradients = [torch.autograd.grad(y.square().sum(), inputs) for y in (output, wanted)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
