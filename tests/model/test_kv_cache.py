import pytest
import torch

from tests.support.pairs import pairs

TOLERANCE = {"rtol": 1e-11, "atol": 1e-11}


@torch.no_grad()
def cached(model, ids, chunks, capacity=None):
    """Logits of all positions, the sequence fed in chunks of the given sizes."""
    cache, start, parts = model.new_cache(len(ids), capacity), 0, []
    for size in chunks:
        places = torch.arange(start, start + size).expand(len(ids), -1)
        parts.append(model.logits(model.hidden_states(ids[:, start : start + size], places, cache)))
        start += size
    return torch.cat(parts, 1)


@pytest.mark.parametrize(
    ("heads", "norm", "chunks"),
    pairs(
        [{"heads": 3}, {"heads": 1}, {"heads": 5, "head_width": 4}],
        ["pre", "post"],
        [[1] * 13, [13], [5, 1, 1, 1, 1, 1, 1, 1, 1], [3, 7, 2, 1], [12, 1]],
    ),
)
def test_cached_logits_equal_uncached(new_model, ids, heads, norm, chunks):
    model = new_model(norm=norm, **heads)
    torch.testing.assert_close(cached(model, ids, chunks), model(ids), **TOLERANCE)


@pytest.mark.parametrize("positions", ["sinusoids", "learned", "rotary", "none"])
@pytest.mark.parametrize(("norm_kind", "norm"), [("layer", "pre"), ("rms", "pre"), ("std", "post")])
def test_cached_logits_equal_uncached_in_every_kind_of_model(
    new_model, ids, positions, norm_kind, norm
):
    for output in (
        {"tied_output": True, "output_bias": True},
        {"tied_output": False, "output_bias": True},
    ):
        kind = {"positions": positions, "norm_kind": norm_kind, "norm": norm, "head_width": 6}
        model = new_model(**kind, qkv_bias=False, **output)
        torch.testing.assert_close(cached(model, ids, [5, 1, 1, 4, 1, 1]), model(ids), **TOLERANCE)


def test_a_cache_smaller_than_the_context_serves_as_well(new_model, ids):
    model = new_model()
    torch.testing.assert_close(cached(model, ids, [6, 7], capacity=13), model(ids), **TOLERANCE)


def test_positions_start_at_zero_where_none_are_given(new_model, ids):
    model = new_model()
    cache = model.new_cache(5)
    torch.testing.assert_close(
        model.logits(model.hidden_states(ids[:, :6], cache=cache)), model(ids[:, :6]), **TOLERANCE
    )
    step = model.hidden_states(ids[:, 6:7], torch.full((5, 1), 6), cache)
    torch.testing.assert_close(model.logits(step), model(ids[:, :7])[:, 6:], **TOLERANCE)


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
@pytest.mark.parametrize("few", [0.0, 1.0])
def test_select_of_the_changed_slots_equals_select_of_all(new_model, ids, monkeypatch, rows, few):
    monkeypatch.setattr("tinylm.model.kv_cache.FEW", few)  # both ways of copying
    model = new_model()
    alike = ids.clone()
    alike[:, :6] = alike[0, :6]  # rows as beams have them: a common start, then different ends
    whole, parts = (prefilled(model, alike, [9] * 5) for _ in "ab")
    picked = torch.tensor(rows)
    changed = (alike[: len(rows), :9] != alike[picked, :9]).cummax(1).values
    whole.select(picked)
    parts.select(picked, changed)
    for one, other in zip(parts.keys + parts.values, whole.keys + whole.values, strict=True):
        torch.testing.assert_close(one, other, **TOLERANCE)
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


def test_leftovers_past_a_rows_position_are_never_read(new_model, ids):
    model = new_model()
    cache = prefilled(model, ids, [9] * 5)
    for buffer in cache.keys + cache.values:
        buffer[:, :, 4:] = 1e3
    logits = step(model, cache, ids, [4] * 5)
    torch.testing.assert_close(logits, model(ids[:, :5])[:, -1], **TOLERANCE)


def test_no_slot_past_the_capacity_or_the_context(new_model, ids):
    model = new_model(context=11)
    with pytest.raises(ValueError, match="position 7 lies past the cache's 7 slots"):
        cached(model, ids, [7, 1], capacity=7)
    with pytest.raises(ValueError, match="12 positions; the context holds 11"):
        cached(model, ids, [11, 1], capacity=13)


def test_a_cache_takes_the_models_precision_and_counts_its_bytes(new_model):
    model = new_model(layers=3, heads=5)
    cache = model.new_cache(7, 11)
    assert cache.keys[0].dtype == torch.float64
    assert (
        cache.nbytes == 3 * 2 * 7 * 5 * 11 * 4 * 8
    )  # layers, keys and values, rows, heads, slots, width, bytes
