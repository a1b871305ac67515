"""Oracle: PyTorch's attention over the whole text in one pass, in float64."""

import torch
from torch.nn.functional import scaled_dot_product_attention as attention

from tinylm.learn.expect import drawn, expect, require


def _text(seed, batch, heads, length, width):
    return [drawn(seed + i, batch, heads, length, width) for i in range(3)]


def stores(Cache):
    """append returns all keys and values so far"""
    cache = Cache(1, 1, 4, 1)
    keys = drawn(1, 1, 1, 3, 1)
    values = drawn(2, 1, 1, 3, 1)
    for start, end in ((0, 2), (2, 3)):
        given = {"keys": keys[:, :, start:end], "values": values[:, :, start:end]}
        expect(cache.append, given, (keys[:, :, :end], values[:, :, :end]), {
            "the new ones write over the old: begin at slot `used`": (
                torch.cat([given["keys"], keys[:, :, 1:2]], 2), torch.cat([given["values"], values[:, :, 1:2]], 2)
            ),
            "only the new ones come back; return all filled slots": (given["keys"], given["values"]),
            "the slots behind `used` come back, too: return the filled ones": (
                torch.nn.functional.pad(keys[:, :, :end], (0, 0, 0, 4 - end)),
                torch.nn.functional.pad(values[:, :, :end], (0, 0, 0, 4 - end)),
            ),
            "the keys are stored as values": (keys[:, :, :end], keys[:, :, :end]),
            "values and keys are exchanged": (values[:, :, :end], keys[:, :, :end]),
        })  # fmt: skip
        require(cache.used == end, f"used is {cache.used} instead of {end}", "add T to used")


def last_positions(attend):
    """the T queries are the last of S positions"""
    for seed, (length, new) in enumerate([(2, 1), (3, 1), (3, 2), (4, 4)]):
        queries, keys, values = _text(10 * seed, 1, 1, length, 1)
        whole = attention(queries, keys, values, is_causal=True)
        given = {"queries": queries[:, :, length - new :], "keys": keys, "values": values}
        first = torch.ones(new, length, dtype=torch.bool).tril(0)
        missing = torch.ones(new, length, dtype=torch.bool).tril(length - new - 1)
        missing[:, 0] = True
        expect(attend, given, whole[:, :, length - new :], {
            "query t is at position S - T + t; your mask puts it at t": attention(*given.values(), attn_mask=first),
            "a query does not see its own slot: the mask is off by one": attention(
                *given.values(), attn_mask=missing
            ),
            "queries of one piece see later ones: mask slots s > S - T + t": attention(*given.values()),
            "the scores are not divided by sqrt(Dh)": attention(queries * 1, keys, values)[:, :, length - new :],
        })  # fmt: skip


def in_pieces(Cache, attend):
    """a text in pieces gives the results of one pass"""
    for cuts in ([1, 1, 1], [2, 1, 2], [3, 3, 1]):
        length = sum(cuts)
        queries, keys, values = _text(sum(cuts), 2, 3, length, 2)
        whole = attention(queries, keys, values, is_causal=True)
        cache = Cache(2, 3, length, 2)
        start = 0
        for size in cuts:
            piece = slice(start, start + size)
            stored = cache.append(keys[:, :, piece], values[:, :, piece])
            answer = attend(queries[:, :, piece], *stored)
            given = {"pieces": cuts, "from_position": start}
            expect(lambda *_: answer, given, whole[:, :, piece],  # noqa: B023
                   {"one pass over the whole text gives other numbers at these positions": answer})  # fmt: skip
            start += size


def refuses(Cache):
    """a full cache raises ValueError and changes nothing"""
    cache = Cache(1, 1, 2, 1)
    one = drawn(3, 1, 1, 1, 1)
    cache.append(one, one)
    three = drawn(4, 1, 1, 2, 1)
    try:
        cache.append(three, three)
    except ValueError:
        require(
            cache.used == 1,
            f"used is {cache.used} after the refused call",
            "compare before you store",
        )
        keys, _ = cache.append(one + 1, one)
        expect(lambda _: keys, {"capacity": 2}, torch.cat([one, one + 1], 2))
        return
    require(False, "2 more in a cache of 2 slots, 1 of them filled, raise no ValueError",
            "compare used + T with the capacity")  # fmt: skip


def does_not_grow(Cache):
    """the buffers do not move or grow"""
    cache = Cache(1, 2, 8, 4)
    piece = drawn(5, 1, 2, 1, 4)
    places = {cache.append(piece, piece)[0].untyped_storage().data_ptr() for _ in range(8)}
    require(len(places) == 1, f"8 appends of one token used {len(places)} different buffers",
            "write into one buffer; torch.cat copies all keys at every step")  # fmt: skip
