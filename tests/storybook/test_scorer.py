import math

import pytest

from tinylm.storybook.corpus import Sampler, compile_rule, generate, sample_story
from tinylm.storybook.lexicon import Weighted
from tinylm.storybook.scorer import score


@pytest.mark.parametrize("seed", ["one", "two", "three", "four", "five"])
def test_scorer_finds_the_written_probability_in_one_way_only(seed):
    sampler = Sampler(seed)
    for _ in range(12):
        story = sample_story(sampler)
        log_prob, ways = score(story.text)
        assert ways == 1, story.text
        assert log_prob == pytest.approx(sampler.log_prob, abs=1e-9)
        assert abs(log_prob - story.log_prob) < 6e-7


def test_case_and_punctuation_do_not_count():
    text = next(generate(1, 0, 9)[0]).text
    assert score(text.upper().replace(".", "!")) == score(text)


def test_other_words_have_no_probability():
    text = next(generate(1, 0, 9)[0]).text
    assert score(text + " The end") == (-math.inf, 0)
    assert score(text.rsplit(" ", 1)[0]) == (-math.inf, 0)
    assert score(text.replace(" a ", " an ", 1)) == (-math.inf, 0)


def test_ways_to_tell_the_same_text_are_summed(monkeypatch):
    rules = {"story": ["3| The <pet> ran.", "1| The cat ran."], "pet": ["cat", "dog"]}
    monkeypatch.setattr("tinylm.storybook.corpus.RULES", rules)
    compile_rule.cache_clear()
    try:
        log_prob, ways = score("The cat ran.")
        assert ways == 2
        assert math.exp(log_prob) == pytest.approx(3 / 4 * 1 / 2 + 1 / 4, abs=1e-12)
        assert math.exp(score("The dog ran.")[0]) == pytest.approx(3 / 8, abs=1e-12)
    finally:
        compile_rule.cache_clear()


@pytest.mark.parametrize("banned", [(), (4,), (0, 3), (1, 2, 4)])
def test_probabilities_sum_to_one_whatever_is_banned(banned):
    weighted = Weighted("abcde", [1, 2, 3, 5, 8])
    left = [i for i in range(5) if i not in banned]
    total = math.fsum(math.exp(weighted.log_prob(i, banned)) for i in left)
    assert total == pytest.approx(1, abs=1e-12)
