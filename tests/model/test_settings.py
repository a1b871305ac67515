"""What section `model` takes: the ends of every range, and every choice."""

import functools

import pytest

from tests.support.small import MODEL, accepts
from tinylm.model.settings import ModelSettings

RANGES = {
    "layers": (1, 1000), "heads": (1, 10_000), "head_width": (1, 100_000), "feed_forward": (1, 1_000_000),
    "context": (2, 1_000_000), "dropout": (0.0, 0.99), "norm_eps": (5e-324, 1.0)
}  # fmt: skip
CHOICES = {
    "norm": {"pre", "post"}, "norm_kind": {"layer", "rms", "std"}, "positions": {"sinusoids", "learned", "none"},
    "activation": {"relu", "gelu"}, "init": {"scaled", "xavier", "torch"}, "embedding": {"tuned", "frozen"}
}  # fmt: skip


accepted = functools.partial(accepts, "model", MODEL, ModelSettings)


@pytest.mark.parametrize("key", RANGES)
def test_numbers_are_taken_up_to_the_ends_of_their_range(key):
    low, high = RANGES[key]
    step = 1 if isinstance(low, int) else 1e-9
    assert [accepted(key, value) for value in (low, high, low - step, high + step)] == [
        True,
        True,
        False,
        False,
    ]
    assert accepted(key, None) == (key == "head_width")


@pytest.mark.parametrize("key", CHOICES)
def test_words_are_taken_where_they_are_choices(key):
    tried = {*CHOICES[key], *(word.upper() for word in CHOICES[key]), "", "none", "sinusoid"}
    assert {word for word in tried if accepted(key, word)} == CHOICES[key]


def test_every_other_key_is_yes_or_no():
    rest = MODEL.keys() - RANGES.keys() - CHOICES.keys()
    assert all(accepted(key, value) for key in rest for value in (True, False))
    assert not any(accepted(key, value) for key in rest for value in (1, "true", None))


def test_every_problem_with_a_width_is_said():
    settings = ModelSettings(**(MODEL | {"heads": 2, "norm_kind": "std"}))
    assert [problem.partition(";")[0] for problem in settings.problems_with_width(1)] == [
        "model.heads = 2",
        "model.norm_kind = 'std'",
    ]
    heads = "model.heads = 2; allowed: at most the embedding's width 1, or a head_width"
    assert settings.problems_with_width(1)[0] == heads
    assert settings.problems_with_width(2) == []
    wide = ModelSettings(**(MODEL | {"heads": 9, "head_width": 4}))
    assert wide.problems_with_width(2) == []
