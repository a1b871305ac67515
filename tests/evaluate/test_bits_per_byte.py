import math

import numpy as np
import pytest

from tinylm.evaluate.bits_per_byte import Spelling, bits_per_byte

WORDS = [
    "play",
    "played",
    "playing",
    "plays",
    "stay",
    "stayed",
    "staying",
    "day",
    "days",
    "sunny",
    "mum's",
]


def test_each_occurrence_of_an_unknown_word_is_spelt():
    spelling = Spelling(WORDS)
    nats = [spelling.nats("slayed"), spelling.nats("slayed"), spelling.nats("zoo")]
    expected = (10 + sum(nats)) / math.log(2) / 30
    assert bits_per_byte(10, iter(["slayed", "zoo", "slayed"]), 30, spelling) == pytest.approx(
        expected
    )


def test_a_word_and_the_end_after_it_are_paid_for():
    """Prices of all strings are a distribution; without the end, prefixes would be counted in longer words."""
    spelling = Spelling(["\0", "\0\0", "\0" * 3])
    assert 0.5 < sum(np.exp(-spelling.nats("\0" * length)) for length in range(40)) < 1
