import pytest
import torch

from tests.support.pairs import pairs

TOLERANCE = {"rtol": 1e-11, "atol": 1e-11}


@torch.no_grad()
def cached(model, ids, chunks, capacity=None):
    """Logits of all positions, the sequence fed in chunks of the given sizes."""
    cache = model.new_cache(len(ids), capacity)
    start = 0
    logits = []
    for size in chunks:
        positions = torch.arange(start, start + size).expand(len(ids), -1)
        hidden = model.hidden_states(ids[:, start : start + size], positions, cache)
        logits.append(model.logits(hidden))
        start += size
    return torch.cat(logits, 1)


SHAPES = {
    "heads": [3, 1, 5],
    "head_width": [6, 4],
    "norm": ["pre", "post"],
    "norm_kind": ["layer", "rms", "std"],
    "positions": ["rotary", "sinusoids", "learned", "none"],
    "tied_output": [True, False],
    "output_bias": [True],
}


@pytest.mark.parametrize("values", pairs(*SHAPES.values()), ids=str)
@pytest.mark.parametrize("chunks", [[1] * 13, [13], [5, 1, 1, 4, 1, 1]], ids=str)
def test_cached_logits_equal_uncached(new_model, ids, values, chunks):
    model = new_model(**dict(zip(SHAPES, values, strict=True)))
    torch.testing.assert_close(cached(model, ids, chunks), model(ids), **TOLERANCE)


@torch.no_grad()
def prefilled(model, rows, lengths):
    """A cache filled with rows of unequal length, padded right."""
    cache = model.new_cache(len(lengths))
    width = max(lengths)
    padded = torch.full((len(lengths), width), 2)
    for row, length in enumerate(lengths):
        padded[row, :length] = rows[row, :length]
    model.hidden_states(padded, cache=cache)
    return cache


@torch.no_grad()
def step(model, cache, rows, lengths):
    """Logits of each row's token at its own position."""
    places = torch.tensor(lengths)[:, None]
    return model.logits(model.hidden_states(rows.gather(1, places), places, cache))[:, 0]


@torch.no_grad()
def alone(model, rows, lengths):
    """The same logits of each row alone, without a cache."""
    texts = [row[None, : length + 1] for row, length in zip(rows, lengths, strict=True)]
    return torch.cat([model(text)[:, -1] for text in texts])


def test_rows_of_unequal_length_are_taken_again_each_at_its_own_position(new_model, ids):
    model = new_model()
    lengths = [3, 8, 1, 5, 7]
    cache = prefilled(model, ids, lengths)
    torch.testing.assert_close(
        step(model, cache, ids, lengths), alone(model, ids, lengths), **TOLERANCE
    )
    rows = torch.tensor([4, 1, 1, 4, 0, 3])
    lengths = [lengths[row] + 1 for row in rows]
    cache.reorder(rows)
    picked = ids[rows]
    picked[2, 9] = (picked[2, 9] + 1) % 31  # two copies of one row go on with different tokens
    logits = step(model, cache, picked, lengths)
    torch.testing.assert_close(logits, alone(model, picked, lengths), **TOLERANCE)
    assert not torch.allclose(logits[1], logits[2])


def test_no_slot_past_the_capacity_or_the_context(new_model, ids):
    model = new_model(context=11)
    with pytest.raises(ValueError, match="7 slots"):
        cached(model, ids, [7, 1], capacity=7)
    with pytest.raises(ValueError, match="context"):
        cached(model, ids, [11, 1], capacity=13)
