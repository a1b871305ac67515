import pytest
import torch

from tests.support.small import in_float64, model_settings
from tinylm.model.ragged_heads import RaggedSelfAttention, head_widths
from tinylm.model.transformer import SelfAttention, causal_mask

B, T = 3, 11


def new_attention(kind: type[SelfAttention], width: int, **settings) -> SelfAttention:
    attention = kind(width, model_settings(**settings))
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.copy_(torch.randn(parameter.shape) / parameter.shape[-1] ** 0.5)
    return in_float64(attention)


def mask() -> torch.Tensor:
    positions = torch.arange(T)
    return causal_mask(positions[None], positions, torch.float64)


def head_by_head(attention: SelfAttention, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The definition, one head after the other: output (B, T, D) and maps (B, H, T, T)."""
    queries, keys, values = attention.qkv(x).chunk(3, dim=-1)
    allowed = torch.ones(T, T).tril().bool()
    mixed, maps, start = [], [], 0
    for width in head_widths(attention.inner, attention.heads):
        part = slice(start, start + width)
        scores = queries[..., part] @ keys[..., part].transpose(1, 2) / width**0.5
        weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
        mixed.append(weights @ values[..., part])
        maps.append(weights)
        start += width
    return attention.out(torch.cat(mixed, -1)), torch.stack(maps, 1)


@pytest.mark.parametrize(
    ("inner", "heads", "widths"),
    [(300, 8, [38] * 4 + [37] * 4), (12, 3, [4, 4, 4]), (5, 1, [5]), (7, 3, [3, 2, 2])],
)
def test_head_widths_share_the_columns_out(inner, heads, widths):
    assert head_widths(inner, heads) == widths


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("width", "heads", "head_width", "kind"),
    [
        (300, 8, None, RaggedSelfAttention),
        (300, 8, 37, SelfAttention),
        (19, 17, None, RaggedSelfAttention),
        (7, 3, 11, SelfAttention),
    ],
)
def test_any_number_of_heads_on_any_width_is_the_definition_head_by_head(
    width, heads, head_width, kind, bias
):
    biases = {"qkv_bias": bias, "attention_bias": bias}
    attention = new_attention(kind, width, heads=heads, head_width=head_width, **biases)
    x = torch.randn(B, T, width, dtype=torch.float64, requires_grad=True)
    maps: list[torch.Tensor] = []
    output = attention(x, mask(), attention_weights_out=maps)
    wanted, wanted_maps = head_by_head(attention, x)
    torch.testing.assert_close(output, wanted, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(maps[0], wanted_maps, rtol=1e-11, atol=1e-11)
    inputs = [x, *attention.parameters()]
    gradients = [torch.autograd.grad(y.square().sum(), inputs) for y in (output, wanted)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
