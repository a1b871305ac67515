import math

import pytest

from tinylm.storybook.corpus import Sampler, generate, sample_story
from tinylm.storybook.lexicon import Weighted
from tinylm.storybook.scorer import parse_all, words_of


def log_probs(text):
    """ln P of every way to tell a text."""
    return list(parse_all(words_of(text)))


@pytest.mark.parametrize("seed", ["one", "two", "three"])
def test_the_scorer_computes_the_sampled_probability_in_one_way_only(seed):
    sampler = Sampler(seed)
    for _ in range(12):
        story = sample_story(sampler)
        (log_prob,) = log_probs(story.text)
        assert log_prob == pytest.approx(sampler.log_prob, abs=1e-9)
        assert abs(log_prob - story.log_prob) < 6e-7


def test_other_words_have_no_probability_but_case_and_punctuation_do_not_count():
    text = next(generate(1, 0, 9)[0]).text
    assert log_probs(text.upper().replace(".", "!")) == log_probs(text)
    for other in (text + " The end", text.rsplit(" ", 1)[0]):
        assert log_probs(other) == []


@pytest.mark.parametrize("banned", [(), (0, 3), (1, 2, 4)])
def test_draws_and_probabilities_are_in_proportion_whatever_is_banned(banned):
    weights = [1, 2, 3, 5, 8]
    weighted = Weighted("abcde", weights)
    sampler = Sampler("proportions")
    draws = [sampler.pick(weighted, banned) for _ in range(6_000)]
    left = sum(weight for index, weight in enumerate(weights) if index not in banned)
    for index, weight in enumerate(weights):
        share = 0 if index in banned else weight / left
        assert draws.count(index) / 6_000 == pytest.approx(share, abs=0.02)
        if share:
            assert math.exp(weighted.log_prob(index, banned)) == pytest.approx(share)
