import itertools
import random
import tracemalloc
from collections import Counter

import numpy as np
import pytest
import torch

from tinylm.base.config import InputError
from tinylm.vocab.batches import Batch, TrainBatches, scoring_batches
from tinylm.vocab.token_store import TokenStore, write_store

SOS, EOS, PAD = 0, 1, 2
VOCAB = 5000


def make_store(folder, lengths):
    """A store whose words are all different, so that a token tells its place."""
    words = iter(range(10, VOCAB))
    write_store(
        folder, "train", ([SOS, *(next(words) for _ in range(n)), EOS] for n in lengths), VOCAB
    )
    return TokenStore(folder, "train")


@pytest.fixture
def store(tmp_path):
    chooser = random.Random(2)
    return make_store(tmp_path, [chooser.randint(0, 40) for _ in range(83)])


def epoch(batches, number):
    return [batches.batch(number * len(batches) + place) for place in range(len(batches))]


def pairs(batches):
    """(input, target) of every scored place, counted."""
    found = Counter()
    for batch in batches:
        scored = batch.targets != -1
        assert batch.tokens == int(scored.sum())
        assert batch.inputs.dtype == batch.targets.dtype == torch.int64
        assert bool((batch.inputs[~scored] == PAD).all())
        found.update(
            zip(batch.inputs[scored].tolist(), batch.targets[scored].tolist(), strict=True)
        )
    return found


def successors(ids):
    return Counter(itertools.pairwise(ids))


@pytest.mark.parametrize("context", [7, 13, 500])
@pytest.mark.parametrize("batch_size", [1, 5, 1000])
def test_stories_every_token_is_a_target_once_an_epoch(store, context, batch_size):
    expected = sum((successors(store.story(i).tolist()) for i in range(len(store))), Counter())
    batches = TrainBatches(store, "stories", batch_size, context, PAD, seed=1)
    for number in (0, 1, 5):
        assert pairs(epoch(batches, number)) == expected
    assert pairs(scoring_batches(store, "stories", batch_size, context, PAD)) == expected
    assert batches.tokens_per_epoch == expected.total()


@pytest.mark.parametrize("context", [7, 13, 99_999])
@pytest.mark.parametrize("batch_size", [1, 5, 1000])
def test_stream_every_token_is_a_target_once_an_epoch(store, context, batch_size):
    ids = store.ids.tolist()
    batches = TrainBatches(store, "stream", batch_size, context, PAD, seed=1)
    for number in (0, 1, 5):
        assert pairs(epoch(batches, number)) == successors([*ids, ids[0]])  # the stream is a ring
    assert pairs(scoring_batches(store, "stream", batch_size, context, PAD)) == successors(ids)
    assert batches.tokens_per_epoch == len(ids)


@pytest.mark.parametrize("context", [1, 7, 13])
@pytest.mark.parametrize("batch_size", [1, 5, 10_000])
def test_windows_every_window_once_an_epoch(store, context, batch_size):
    ids = store.ids.tolist()
    expected = [tuple(ids[i : i + context + 1]) for i in range(len(ids) - context)]

    def windows(batches):
        rows = [torch.cat([b.inputs, b.targets[:, -1:]], dim=1) for b in batches]
        assert all(torch.equal(b.inputs[:, 1:], b.targets[:, :-1]) for b in batches)
        return [tuple(row) for row in torch.cat(rows).tolist()]

    batches = TrainBatches(store, "windows", batch_size, context, PAD, seed=1)
    for number in (0, 1):
        found = windows(epoch(batches, number))
        assert Counter(found) == Counter(expected)
        assert found != expected
    scored = list(scoring_batches(store, "windows", batch_size, context, PAD))
    assert windows(scored) == expected
    assert (
        batches.tokens_per_epoch == sum(batch.tokens for batch in scored) == context * len(expected)
    )


def test_windows_take_no_memory_but_their_order(tmp_path):
    write_store(tmp_path, "train", [np.arange(300_000) % VOCAB], VOCAB)
    store = TokenStore(tmp_path, "train")
    tracemalloc.start()
    batches = TrainBatches(store, "windows", 512, 50, PAD, seed=1)
    made = tracemalloc.get_traced_memory()[0]
    batches.batch(0)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert made < 20_000
    assert held < 8.5 * 300_000


def test_the_published_number_of_windows_and_batches(tmp_path):
    write_store(tmp_path, "train", [np.arange(338_924) % VOCAB], VOCAB)
    batches = TrainBatches(TokenStore(tmp_path, "train"), "windows", 64, 50, PAD, seed=1)
    assert (len(batches), batches.tokens_per_epoch) == (5_295, 338_874 * 50)


def test_a_split_without_a_window_is_refused(tmp_path):
    store = make_store(tmp_path, [6])
    assert len(TrainBatches(store, "windows", 4, 7, PAD, 1)) == 1
    refused = pytest.raises(
        InputError, match=r"train\.layout = 'windows': a split of 8 tokens .* at most 7"
    )
    with refused:
        TrainBatches(store, "windows", 4, 8, PAD, 1)
    with refused:
        next(scoring_batches(store, "windows", 4, 8, PAD))


def test_targets_are_inputs_shifted_by_one(store):
    for layout in ("stream", "stories"):
        for batch in epoch(TrainBatches(store, layout, 4, 11, PAD, seed=1), 0):
            going_on = batch.inputs[:, 1:] != PAD
            assert torch.equal(batch.inputs[:, 1:][going_on], batch.targets[:, :-1][going_on])


def test_story_longer_than_the_context_goes_on_in_a_further_row(tmp_path):
    store = make_store(tmp_path, [9, 2])
    (batch,) = scoring_batches(store, "stories", 8, 4, PAD)
    assert batch.inputs.tolist() == [
        [SOS, 10, 11, 12],
        [13, 14, 15, 16],
        [17, 18, PAD, PAD],
        [SOS, 19, 20, PAD],
    ]
    assert batch.targets.tolist() == [
        [10, 11, 12, 13],
        [14, 15, 16, 17],
        [18, EOS, -1, -1],
        [19, 20, EOS, -1],
    ]
    assert batch.tokens == 13


def test_scoring_windows_in_order_the_last_one_short(tmp_path):
    store = make_store(tmp_path, [3, 2])
    first, second = scoring_batches(store, "stream", 2, 3, PAD)
    assert first.inputs.tolist() == [[SOS, 10, 11], [12, EOS, SOS]]
    assert first.targets.tolist() == [[10, 11, 12], [EOS, SOS, 13]]
    assert second.inputs.tolist() == [[13, 14]]
    assert second.targets.tolist() == [[14, EOS]]


@pytest.mark.parametrize("layout", ["stream", "stories", "windows"])
def test_batch_is_a_pure_function_of_its_index(store, layout):
    def make(seed=1):
        return TrainBatches(store, layout, 6, 13, PAD, seed)

    batches = make()
    indices = list(range(3 * len(batches)))
    in_order = [batches.batch(index) for index in indices]
    random.Random(1).shuffle(indices)
    for index in indices:
        again = batches.batch(index)
        assert torch.equal(again.inputs, in_order[index].inputs)
        assert torch.equal(again.targets, in_order[index].targets)
    later = len(batches) + 2
    assert torch.equal(make().batch(later).inputs, in_order[later].inputs)
    assert any(not same(make(2).batch(index), in_order[index]) for index in range(5))
    epochs = [in_order[number * len(batches) : (number + 1) * len(batches)] for number in range(3)]
    assert not all(same(one, two) for one, two in zip(epochs[0], epochs[1], strict=True))


def same(one, two):
    return one.inputs.shape == two.inputs.shape and torch.equal(one.inputs, two.inputs)


@pytest.mark.parametrize("layout", ["stream", "stories", "windows"])
def test_last_ragged_batch_is_kept(store, layout):
    batches = TrainBatches(store, layout, 6, 13, PAD, seed=1)
    rows = [len(batch.inputs) for batch in epoch(batches, 0)]
    assert sorted(set(rows)) == sorted({6, sum(rows) % 6 or 6})
    assert rows.count(6) >= len(rows) - 1
    assert len(batches) == -(-sum(rows) // 6)


def test_rows_of_similar_length_stand_together(tmp_path):
    lengths = [*range(1, 41)] * 3
    random.Random(0).shuffle(lengths)
    batches = epoch(TrainBatches(make_store(tmp_path, lengths), "stories", 8, 64, PAD, seed=1), 0)
    widths = [batch.inputs.shape[1] for batch in batches]
    assert all(
        (batch.inputs != PAD).any(dim=0).all() for batch in batches
    )  # only as wide as the longest row
    padding = sum(int((batch.inputs == PAD).sum()) for batch in batches)
    assert padding < 0.15 * sum(batch.inputs.numel() for batch in batches)
    assert widths != sorted(widths)  # the batches themselves are shuffled


def test_stream_starts_elsewhere_each_epoch(store):
    batches = TrainBatches(store, "stream", 1000, 13, PAD, seed=1)
    borders = [frozenset(batches.batch(number).inputs[:, 0].tolist()) for number in range(4)]
    assert len(set(borders)) == 4


def test_unknown_layout(store):
    with pytest.raises(ValueError, match="layout 'rows'"):
        TrainBatches(store, "rows", 1, 8, PAD, 1)
    with pytest.raises(ValueError, match="layout 'rows'"):
        next(scoring_batches(store, "rows", 1, 8, PAD))


def test_wide_ids_survive(tmp_path):
    write_store(tmp_path, "train", [[0, 70_000, 69_999, 1]], 70_001)
    (batch,) = scoring_batches(TokenStore(tmp_path, "train"), "stories", 1, 8, PAD)
    assert batch.targets.tolist() == [[70_000, 69_999, 1]]
    assert np.array_equal(batch.inputs.numpy(), [[0, 70_000, 69_999]])


def test_a_batch_goes_to_cuda_by_way_of_pinned_memory_without_waiting():
    class There:
        def __init__(self, *way):
            self.way = way

        def pin_memory(self):
            return There(*self.way, "pinned")

        def to(self, device, non_blocking=False):
            return (*self.way, device.type, non_blocking)

    batch = Batch(There("inputs"), There("targets"), 3)  # type: ignore[arg-type]
    assert batch.on(torch.device("cuda")) == (
        ("inputs", "pinned", "cuda", True),
        ("targets", "pinned", "cuda", True),
    )
    assert batch.on(torch.device("cpu")) == (("inputs", "cpu", False), ("targets", "cpu", False))
