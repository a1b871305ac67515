import numpy as np
import pytest

from tinylm.scoring.attention_maps import attention_maps, head_table, opening_sentences, whole_stories
from tinylm.text.token_store import TokenStore


def test_maps_are_causal_and_sum_to_one(model):
    maps = attention_maps(model, [0, 5, 7, 4, 9])
    assert maps.shape == (2, 3, 5, 5)
    assert maps.dtype == np.float32
    assert np.array_equal(maps, np.tril(maps))
    assert maps.sum(-1) == pytest.approx(np.ones((2, 3, 5)), abs=1e-5)


def test_sentences_are_spread_over_the_split_and_fit(corpus):
    store = TokenStore(corpus[0] / "tokens", "evaluation")
    assert [s.tolist() for s in opening_sentences(store, 2, 13)] == [
        store.story(0)[:13].tolist(),
        store.story(3).tolist(),
    ]
    assert len(whole_stories(store, 99, 13)) == 4
    assert max(map(len, whole_stories(store, 99, 5))) == 5


def test_head_table_has_a_row_for_each_head(corpus, model):
    store = TokenStore(corpus[0] / "tokens", "evaluation")
    rows = head_table(model, whole_stories(store, 4, 13), [0, 1])
    assert [(row["layer"], row["head"]) for row in rows] == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3)]
    assert all(0 <= row["previous"] <= 1 and row["interpretation"] for row in rows)
