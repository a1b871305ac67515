import pytest
import torch

from tests.support.small import pairs

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


def test_no_slot_past_the_capacity_or_the_context(new_model, ids):
    model = new_model(context=11)
    with pytest.raises(ValueError, match="7 slots"):
        cached(model, ids, [7, 1], capacity=7)
    with pytest.raises(ValueError, match="context"):
        cached(model, ids, [11, 1], capacity=13)
