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


@pytest.mark.parametrize(
    ("heads", "norm", "norm_kind", "positions", "tied_output", "chunks"),
    [
        ({"head_width": 6}, "pre", "layer", "rotary", True, [5, 1, 1, 4, 1, 1]),
        *pairs(
            [{"heads": 3, "head_width": 6}, {"heads": 1}, {"heads": 5, "head_width": 4}],
            ["pre", "post"],
            ["layer", "rms", "std"],
            ["sinusoids", "learned", "none"],
            [True, False],
            [[1] * 13, [13], [5, 1, 1, 4, 1, 1], [12, 1]],
        ),
    ],
)
def test_cached_logits_equal_uncached(
    new_model, ids, heads, norm, norm_kind, positions, tied_output, chunks
):
    model = new_model(
        norm=norm,
        norm_kind=norm_kind,
        positions=positions,
        tied_output=tied_output,
        output_bias=True,
        **heads,
    )
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


def test_rows_of_unequal_length_go_on_each_at_its_own_position(new_model, ids):
    model = new_model()
    lengths = [3, 8, 1, 5, 7]
    cache = prefilled(model, ids, lengths)
    for _ in range(4):
        logits = step(model, cache, ids, lengths)
        for row, length in enumerate(lengths):
            torch.testing.assert_close(
                logits[row], model(ids[row : row + 1, : length + 1])[0, -1], **TOLERANCE
            )
        lengths = [length + 1 for length in lengths]


def test_select_takes_rows_again_and_again(new_model, ids):
    model = new_model()
    lengths = [3, 8, 1, 5, 7]
    cache = prefilled(model, ids, lengths)
    rows = torch.tensor([4, 1, 1, 4, 0, 3])
    cache.select(rows)
    picked, own = ids[rows], [lengths[row] for row in rows]
    picked[2, 8] = (picked[2, 8] + 1) % 31  # two copies of one row go on with different tokens
    logits = step(model, cache, picked, own)
    for row, length in enumerate(own):
        torch.testing.assert_close(
            logits[row], model(picked[row : row + 1, : length + 1])[0, -1], **TOLERANCE
        )
    assert not torch.allclose(logits[1], logits[2])


@pytest.mark.parametrize("rows", [[0, 1, 2, 3, 4], [1, 1, 0, 3, 4], [4, 2, 2]])
def test_select_of_the_changed_slots_equals_select_of_all(new_model, ids, rows):
    model = new_model()
    alike = ids.clone()
    alike[:, :6] = alike[0, :6]  # rows as beams have them: a common start, then different ends
    whole, parts = (prefilled(model, alike, [9] * 5) for _ in "ab")
    picked = torch.tensor(rows)
    changed = (alike[: len(rows), :9] != alike[picked, :9]).cummax(1).values
    whole.select(picked)
    parts.select(picked, changed.nonzero())
    torch.testing.assert_close(parts.keys, whole.keys, **TOLERANCE)
    torch.testing.assert_close(parts.values, whole.values, **TOLERANCE)
    logits = step(model, parts, alike[picked], [9] * len(rows))
    torch.testing.assert_close(logits, model(alike[picked, :10])[:, -1], **TOLERANCE)


def test_put_replaces_some_rows_by_those_of_another_cache(new_model, ids):
    model = new_model()
    lengths = [3, 8, 1, 5, 7]
    cache = prefilled(model, ids, lengths)
    fresh = torch.randint(3, 31, (2, 13))
    cache.put(torch.tensor([1, 4]), prefilled(model, fresh, [2, 11]))
    changed = ids.clone()
    changed[[1, 4]] = fresh
    lengths[1], lengths[4] = 2, 11
    logits = step(model, cache, changed, lengths)
    for row, length in enumerate(lengths):
        torch.testing.assert_close(
            logits[row], model(changed[row : row + 1, : length + 1])[0, -1], **TOLERANCE
        )


def test_no_slot_past_the_capacity_or_the_context(new_model, ids):
    model = new_model(context=11)
    with pytest.raises(ValueError, match="position 7 is past the cache's 7 slots"):
        cached(model, ids, [7, 1], capacity=7)
    with pytest.raises(ValueError, match="12 positions; the context holds 11"):
        cached(model, ids, [11, 1], capacity=13)
