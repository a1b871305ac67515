import functools

import pytest

from tests.support.small import DECODE, accepts
from tinylm.decoding.settings import DecodeSettings


@pytest.mark.parametrize(
    ("end", "steps", "expected"),
    [
        (None, 4, [0.8, 0.8, 0.8, 0.8]), (1.2, 5, [0.8, 0.9, 1.0, 1.1, 1.2]), (0.0, 3, [0.8, 0.4, 0.0]),
        (1.2, 2, [0.8, 1.2]), (1.2, 1, [0.8])
    ],
)  # fmt: skip
def test_temperature_goes_linearly_from_the_first_new_token_to_the_last(
    settings, end, steps, expected
):
    chosen = settings(temperature=0.8, temperature_end=end)
    found = [chosen.temperature_at(step, steps) for step in range(steps)]
    assert found == pytest.approx(expected)
    assert (found[0], found[-1]) == (expected[0], expected[-1])


def test_greedy_leaves_only_the_way_of_sliding(settings):
    chosen = settings(
        temperature=0.8, temperature_end=1.2, repetition_penalty=1.3, top_k=5, slide="one"
    ).greedy()
    assert (chosen.temperature, chosen.temperature_end, chosen.repetition_penalty) == (
        0.0,
        None,
        1.0,
    )
    assert chosen.slide == "one"
    assert chosen.in_words() == "greedy"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "sampled at temperature 1"),
        ({"temperature": 0.0, "top_k": 5}, "greedy"),
        ({"temperature": 0.0, "repetition_penalty": 1.2}, "greedy, repetition penalty 1.2"),
        ({"temperature": 0.0, "temperature_end": 1.0}, "sampled at temperature 0 going to 1"),
        (
            {"temperature": 0.8, "temperature_end": 1.2, "top_k": 50, "fallback_mass": 0.5, "repetition_penalty": 1.2,
             "repetition_window": 20},
            "sampled at temperature 0.8 going to 1.2, top-k 50, nucleus 0.9 where these hold less than 0.5, "
            "repetition penalty 1.2 over 20 tokens",
        ),
        ({"top_p": 0.9, "fallback_mass": 0.5}, "sampled at temperature 1, top-p 0.9"),
    ],
)  # fmt: skip
def test_words_name_what_is_in_force_and_nothing_else(settings, changes, words):
    assert settings(**changes).in_words() == words


RANGES = {
    "temperature": (0.0, 1e6), "temperature_end": (0.0, 1e6), "top_k": (0, 1_000_000_000), "top_p": (5e-324, 1.0),
    "fallback_mass": (0.0, 1.0), "fallback_top_p": (5e-324, 1.0), "repetition_penalty": (1.0, 1000.0),
    "repetition_window": (1, 1_000_000), "length_penalty": (0.0, 10.0), "seed": (0, 2**62)
}  # fmt: skip


accepted = functools.partial(accepts, "decode", DECODE, DecodeSettings)


@pytest.mark.parametrize("key", RANGES)
def test_numbers_are_taken_up_to_the_ends_of_their_range(key):
    low, high = RANGES[key]
    step = 1 if isinstance(low, int) else 1e-9
    assert [accepted(key, value) for value in (low, high, low - step)] == [True, True, False]
    assert accepted(key, high + step) == (key == "seed")
    assert accepted(key, None) == (key in ("temperature_end", "repetition_window"))
