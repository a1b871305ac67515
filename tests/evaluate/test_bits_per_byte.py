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


@pytest.mark.parametrize("words", [[], ["a"], WORDS])
@pytest.mark.parametrize("word", ["", "q", "naïve", "\U0001f600", "x" * 300])
def test_every_word_has_a_finite_price(words, word):
    assert 0 < Spelling(words).nats(word) < 10 * (len(word.encode()) + 1)


def test_empty_text_is_refused():
    with pytest.raises(ValueError, match="empty text"):
        bits_per_byte(0.0, [], 0, Spelling(WORDS))
