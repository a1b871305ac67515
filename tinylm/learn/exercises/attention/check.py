"""Oracle: PyTorch's scaled_dot_product_attention in float64."""

import torch
from torch.nn.functional import scaled_dot_product_attention

from tinylm.learn.expect import drawn, expect, require, rows


def _oracle(queries, keys, values, heads, **options):
    parts = [x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (queries, keys, values)]
    options.setdefault("is_causal", True)
    return scaled_dot_product_attention(*parts, **options).transpose(1, 2).flatten(2)


def _by_hand(queries, keys, values, heads, dim=-1, mask=True, after=False, zero=False):
    """Attention with mistakes that PyTorch's own function cannot make."""
    q, k, v = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (queries, keys, values))
    scores = q @ k.mT / q.shape[-1] ** 0.5
    later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    if mask:
        scores = scores.masked_fill(later, 0.0 if zero else -torch.inf)
    weights = scores.softmax(dim)
    if after:
        weights = weights.masked_fill(later, 0.0)
    return (weights @ v).transpose(1, 2).flatten(2)


def _interleaved(queries, keys, values, heads):
    order = torch.arange(queries.shape[2]).reshape(-1, heads).T.flatten()
    result = _oracle(queries[..., order], keys[..., order], values[..., order], heads)
    return result[..., order.argsort()], result


def _given(seed, batch, length, width, heads):
    names = ("queries", "keys", "values")
    given = {name: drawn(seed + i, batch, length, width) for i, name in enumerate(names)}
    return {**given, "heads": heads}


def _suspects(given):
    length = given["queries"].shape[1]
    width = given["queries"].shape[2]
    ahead = torch.ones(length, length, dtype=torch.bool).tril(1)
    behind = torch.ones(length, length, dtype=torch.bool).tril(-1)
    behind[0, 0] = True
    first_of_all = _oracle(**given, is_causal=False, attn_mask=behind)
    heads = given["heads"]
    interleaved, side_by_side = _interleaved(**given)
    batch = given["queries"].shape[0]
    views = [
        given[name].reshape(batch, heads, length, -1) for name in ("queries", "keys", "values")
    ]
    viewed = scaled_dot_product_attention(*views, is_causal=True)
    both = scaled_dot_product_attention(*views, is_causal=True, scale=width**-0.5)
    mixed = _oracle(**given).unflatten(-1, (heads, -1)).transpose(1, 2)
    all_columns = _oracle(given["queries"], given["keys"], given["values"], 1)
    return {
        "row 0 attends to position 1: the mask is off by one": _oracle(
            **given, is_causal=False, attn_mask=ahead
        ),
        "no row attends to its own position: the mask is off by one": first_of_all,
        "each row sees all positions: where is the mask?": _oracle(**given, is_causal=False),
        "the scores are not divided by sqrt(Dh)": _oracle(**given, scale=1.0),
        "the scores are divided by sqrt(D); each head has only Dh = D / H columns": _oracle(
            **given, scale=width**-0.5
        ),
        "the heads are joined in the wrong order: transpose(1, 2) before you flatten": (
            mixed.reshape(given["queries"].shape)
        ),
        "the softmax is over the rows; it belongs over the columns, dim=-1": _by_hand(
            **given, dim=-2
        ),
        "the mask comes after the softmax, so that the weights of a row do not sum to 1": _by_hand(
            **given, mask=False, after=True
        ),
        "the mask puts 0 in the scores; e^0 is 1, so use minus infinity": _by_hand(
            **given, zero=True
        ),
        "keys and values are exchanged": _oracle(
            given["queries"], given["values"], given["keys"], heads
        ),
        "a head has neighbouring columns: unflatten to (heads, Dh), not to (Dh, heads)": side_by_side,
        "a head has neighbouring columns; yours has every H-th": interleaved,
        "reshape to (B, H, T, Dh) mixes rows and heads: make (B, T, H, Dh), then transpose(1, 2)": (
            viewed.transpose(1, 2).flatten(2)
        ),
        "(B, H, T, Dh) mixes rows and heads: make (B, T, H, Dh), then transpose(1, 2); so at the end": (
            viewed.reshape(given["queries"].shape)
        ),
        "(B, H, T, Dh) mixes rows and heads, see --hint; and divide by sqrt(Dh), not by sqrt(D)": (
            both.reshape(given["queries"].shape)
        ),
        "there is only one head: cut the D columns into heads": all_columns,
    }


def first_position_is_its_own_value(attention):
    """position 0 sees only itself, so its result is its value"""
    given = _given(1, 1, 3, 2, 1)
    first_rows = {mistake: rows[:, :1] for mistake, rows in _suspects(given).items()}
    expect(lambda *x: attention(*x)[:, :1], given, given["values"][:, :1], first_rows)


def equal_keys_give_the_mean(attention):
    """with equal keys, each row is the mean of the values so far"""
    values = rows([[0.0], [3.0], [6.0], [9.0]])
    given = {"queries": rows([[1.0], [2.0], [3.0], [4.0]]), "keys": torch.ones(1, 4, 1).double()}
    given |= {"values": values, "heads": 1}
    expect(attention, given, rows([[0.0], [1.5], [3.0], [4.5]]), _suspects(given))


def equals_pytorch(attention):
    """equals PyTorch's attention in float64"""
    for seed, shape in enumerate([(1, 2, 4, 1), (1, 3, 4, 2), (2, 5, 6, 3), (2, 7, 4, 4)]):
        given = _given(10 * seed, *shape)
        expect(attention, given, _oracle(**given), _suspects(given))


def no_later_token_matters(attention):
    """a changed last token changes no earlier row"""
    given = _given(3, 1, 4, 2, 1)
    changed = {name: x if name == "heads" else x.clone() for name, x in given.items()}
    for name in ("queries", "keys", "values"):
        changed[name][:, 3] += 5.0
    before = attention(*given.values())[:, :3]
    after = attention(*changed.values())[:, :3]
    require(torch.equal(before, after), "rows 0 to 2 changed", "a row sees a later position",
            before=before, after=after)  # fmt: skip


def keeps_float32(attention):
    """float32 inputs give a float32 result, large scores no nan"""
    given = _given(4, 1, 3, 2, 1)
    given = {name: x if name == "heads" else x.float() * 60 for name, x in given.items()}
    expect(attention, given, _oracle(**given), tolerance=1e-3)
