"""Batches as functions of their index, prepared ahead; and prompts."""

import itertools
import random

import numpy as np
import pytest
import torch

from tinylm.base.config import InputError
from tinylm.vocab.batches import TrainBatches
from tinylm.vocab.prefetcher import Prefetcher
from tinylm.vocab.prompts import choose_prompts, cut_prompts
from tinylm.vocab.token_store import TokenStore, write_store

SOS, EOS, PAD = 0, 1, 2
VOCAB = 5000


def make_store(folder, lengths):
    """A store whose words are all different, so that a token tells its position."""
    words = iter(range(10, VOCAB))
    stories = [[SOS, *itertools.islice(words, length), EOS] for length in lengths]
    write_store(folder, "train", stories, VOCAB)
    return TokenStore(folder, "train")


@pytest.fixture
def store(tmp_path):
    chooser = random.Random(2)
    return make_store(tmp_path, [chooser.randint(0, 40) for _ in range(83)])


def epoch(batches, number):
    return [batches.batch(number * len(batches) + index) for index in range(len(batches))]


def test_a_split_without_a_window_is_refused(tmp_path):
    store = make_store(tmp_path, [6])
    assert len(TrainBatches(store, "windows", 4, 7, PAD, 1)) == 1
    with pytest.raises(InputError, match=r"train\.layout"):
        TrainBatches(store, "windows", 4, 8, PAD, 1)


@pytest.mark.parametrize("layout", ["stream", "windows"])
def test_each_batch_of_each_epoch_hides_other_words(store, layout):
    batches = TrainBatches(store, layout, 6, 13, PAD, seed=1).with_unknown(3, 0.5)
    masks = [batch.inputs == 3 for number in range(2) for batch in epoch(batches, number)]
    for one, other in itertools.combinations([mask for mask in masks if len(mask) == 6], 2):
        # Independent masks agree on half of the words, and always on special tokens, which are never hidden.
        assert (one == other).double().mean() < 0.8


@pytest.mark.parametrize("batch_size", [6, 10_000])
@pytest.mark.parametrize("layout", ["stream", "stories", "windows"])
def test_a_batch_is_a_pure_function_of_its_index_and_the_seed(store, layout, batch_size):
    batches = TrainBatches(store, layout, batch_size, 13, PAD, seed=1)
    in_order = [batches.batch(index) for index in range(3 * len(batches))]
    again = TrainBatches(store, layout, batch_size, 13, PAD, seed=1)
    sizes = [batch.inputs.numel() for batch in in_order[: len(batches)]]
    assert sizes[batches.largest()] == max(sizes)
    for index in reversed(range(len(in_order))):
        assert torch.equal(again.batch(index).inputs, in_order[index].inputs)
        assert torch.equal(again.batch(index).targets, in_order[index].targets)
    other = TrainBatches(store, layout, batch_size, 13, PAD, seed=2)
    rows = [
        [batch.inputs.tolist() for batch in epoch(*which)]
        for which in ((batches, 0), (batches, 1), (other, 0))
    ]
    assert rows[0] != rows[1]
    assert rows[0] != rows[2]


def test_batches_are_prepared_ahead_and_in_order():
    prepared = []

    def prepare(update):
        prepared.append(update)
        return [update]

    prefetcher = Prefetcher(prepare, ahead=2)
    assert [prefetcher.get(update) for update in (0, 0, 1, 2)] == [[0], [0], [1], [2]]
    assert prefetcher.get(7) == [7]  # as after a resume
    assert prepared[:3] == [0, 1, 2]
    assert len(prepared) == len(set(prepared))


def stored(folder, stories):
    write_store(folder, "evaluation", stories, 100)
    return TokenStore(folder, "evaluation")


def marked(*lengths):
    """Stories between <sos> and <eos>."""
    return [[0, *range(4, 4 + length), 1] for length in lengths]


def choose(tokens, count=9, sos_id=0, **keys):
    prompts = choose_prompts(tokens, count, 3, **keys, sos_id=sos_id)
    return [(prompt.ids, prompt.reference) for prompt in prompts]


@pytest.mark.parametrize(
    ("reference_tokens", "references"),
    [
        (2, [[7, 8], [7, 1]]),
        (6, [[7, 8, 1], [7, 1]]),  # to the story's end
        (None, [[7, 8, 1], [7, 1]]),
    ],
)
def test_a_story_is_cut_after_the_prompt_and_the_reference(tmp_path, reference_tokens, references):
    tokens = stored(tmp_path, marked(5, 3, 4))  # the second is too short
    prompts = choose(tokens, reference_tokens=reference_tokens)
    assert [ids for ids, _ in prompts] == [[0, 4, 5, 6]] * 2
    assert [reference for _, reference in prompts] == references


def test_stories_without_marks_are_cut_after_their_tokens(tmp_path):
    stories = [[2, 2, 2, 2], [5, 6, 7, 8], [9, 9, 9], [1, 2, 3, 4, 5]]
    prompts = choose(stored(tmp_path, stories), sos_id=None, reference_tokens=9)
    assert prompts == [([5, 6, 7], [8]), ([1, 2, 3], [4, 5])]  # the first may be a story's tail
    only = choose(stored(tmp_path, stories[1:2]), sos_id=None, reference_tokens=9)
    assert only == [([5, 6, 7], [8])]


def test_cuts_of_the_stream_run_across_stories_and_name_the_one_they_begin_in(tmp_path):
    tokens = stored(tmp_path, [[0, 1, 2], [], [3], [4, 5, 6, 7, 8, 9]])
    prompts = cut_prompts(tokens, 9, 2, 1, seed=1)
    spans = [[start, start + 1, start + 2] for start in range(8)]
    assert [prompt.ids + prompt.reference for prompt in prompts] == spans
    assert [prompt.story for prompt in prompts] == [0, 0, 0, 2, 3, 3, 3, 3]


def test_cuts_depend_on_the_seed_and_are_uniform(tmp_path):
    tokens = stored(tmp_path, [list(range(20))])
    drawn = []
    for seed in (1, 1, *range(2, 400)):
        prompts = cut_prompts(tokens, 4, 3, 4, seed)
        drawn.append([prompt.ids[0] for prompt in prompts])
    assert drawn[0] == drawn[1] == sorted(set(drawn[0]))
    counts = np.bincount(np.concatenate(drawn[1:]))
    assert counts == pytest.approx(np.full(14, counts.mean()), rel=0.35)  # 5 standard deviations
