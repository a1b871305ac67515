import math

import numpy as np
import pytest

from tinylm.evaluate.perplexity import perplexity, story_nats


def test_perplexity_of_a_fair_choice_is_its_size():
    assert perplexity(7 * math.log(5), 7) == pytest.approx(5)


def test_perplexity_too_large_for_a_float_is_infinite():
    assert perplexity(1e6, 1) == math.inf


def test_perplexity_of_nothing_is_refused():
    with pytest.raises(ValueError, match="no token"):
        perplexity(0.0, 0)


def test_story_nats_are_sums_over_a_storys_tokens():
    nats, tokens = story_nats(
        np.array([0.0, 1.0, 2.0, 4.0, 8.0, 16.0]),
        np.array([0, 1, 1, 2, 3, 1]),
        np.array([0, 2, 5, 6]),
    )
    assert nats.tolist() == [1.0, 14.0, 16.0]
    assert tokens.tolist() == [1, 6, 1]
    assert tokens.dtype == np.int64


def test_story_nats_of_empty_stories():
    nats, tokens = story_nats(np.array([0.0, 3.0]), np.array([0, 1]), np.array([0, 0, 2, 2]))
    assert nats.tolist() == [0.0, 3.0, 0.0]
    assert tokens.tolist() == [0, 1, 0]
    assert [len(part) for part in story_nats(np.zeros(0), np.zeros(0), np.array([0]))] == [0, 0]
