import math

import pytest

from tinylm.storybook.chooser import Sampler, Weighted
from tinylm.storybook.corpus import generate
from tinylm.storybook.scorer import score
from tinylm.storybook.telling import tell


@pytest.mark.parametrize("seed", ["one", "two", "three", "four", "five"])
def test_scorer_finds_the_written_probability_by_one_way_only(seed):
    sampler = Sampler(seed)
    for _ in range(12):
        sampler.log_prob = 0.0
        text, _ = tell(sampler)
        log_prob, paths = score(text)
        assert paths == 1, text
        assert log_prob == pytest.approx(sampler.log_prob, abs=1e-9)


def test_written_figure_is_the_score_to_six_decimals():
    for story in generate(5, 5, 8)[1]:
        assert abs(score(story.text)[0] - story.log_prob) < 6e-7


def test_case_and_punctuation_do_not_count():
    story = next(generate(1, 0, 9)[0])
    assert score(story.text.upper().replace(".", "!")) == score(story.text)


def test_other_words_have_no_probability():
    text = next(generate(1, 0, 9)[0]).text
    assert score(text + " The end") == (-math.inf, 0)
    assert score(text.rsplit(" ", 1)[0]) == (-math.inf, 0)
    assert score(text.replace(" a ", " an ", 1)) == (-math.inf, 0)


def test_ways_to_tell_the_same_text_are_summed(monkeypatch):
    rules = {"story": ["3| The <pet> ran.", "1| The cat ran."], "pet": ["cat", "dog"]}
    monkeypatch.setattr("tinylm.storybook.telling.RULES", rules)
    from tinylm.storybook.telling import compile_rule

    compile_rule.cache_clear()
    try:
        log_prob, paths = score("The cat ran.")
        assert paths == 2
        assert math.exp(log_prob) == pytest.approx(3 / 4 * 1 / 2 + 1 / 4, abs=1e-12)
        assert math.exp(score("The dog ran.")[0]) == pytest.approx(3 / 8, abs=1e-12)
    finally:
        compile_rule.cache_clear()


def test_probabilities_sum_to_one_whatever_is_banned():
    weighted = Weighted("abcde", [1, 2, 3, 5, 8])
    for banned in [(), (4,), (0, 3), (1, 2, 4)]:
        left = [i for i in range(5) if i not in banned]
        assert math.fsum(math.exp(weighted.log_prob(i, banned)) for i in left) == pytest.approx(
            1, abs=1e-12
        )


def test_sampler_draws_in_proportion_and_never_a_banned_option():
    weighted, sampler = Weighted("abc", [1, 2, 5]), Sampler("proportions")
    counts = [0, 0, 0]
    for _ in range(6_000):
        counts[sampler.pick(weighted, (1,))] += 1
    assert counts[1] == 0
    assert counts[0] / 6_000 == pytest.approx(1 / 6, abs=0.02)


def test_weights_must_be_positive_integers_one_each():
    with pytest.raises(ValueError, match="positive integer weights"):
        Weighted("ab", [1, 0])
