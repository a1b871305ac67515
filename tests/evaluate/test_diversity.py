import pytest

from tinylm.evaluate.diversity import distinct_n, repeated_share


@pytest.mark.parametrize("texts", [[], [""], ["a"], ["", " "]])
def test_texts_without_ngrams_give_zero(texts):
    assert distinct_n(texts, 2) == 0.0
    assert repeated_share(texts, 2) == 0.0
