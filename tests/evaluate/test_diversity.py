import pytest

from tinylm.evaluate.diversity import distinct_n, repeated_share


def test_distinct_n_pools_texts_and_never_crosses_them():
    texts = ["a b a", "a b"]
    assert distinct_n(texts, 1) == 2 / 5
    assert distinct_n(texts, 2) == 2 / 3  # ab ba ab
    assert distinct_n(texts, 3) == 1.0
    assert distinct_n(["小猫小猫"], 1) == 2 / 4


def test_repeated_share_is_a_mean_over_texts():
    assert repeated_share(["a b a b a", "x y"], 2) == pytest.approx((2 / 4 + 0) / 2)
    assert repeated_share(["go go go go", "x"], 2) == pytest.approx(2 / 3)


@pytest.mark.parametrize("texts", [[], [""], ["a"], ["", " "]])
def test_texts_without_ngrams_give_zero(texts):
    assert distinct_n(texts, 2) == 0.0
    assert repeated_share(texts, 2) == 0.0
