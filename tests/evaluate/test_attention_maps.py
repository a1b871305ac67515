"""Attention of single rows, the passages that are drawn, and the files of arrays."""

import numpy as np
import pytest
import torch

from tinylm.evaluate.attention_maps import MAX_TOKENS, attention, passages, write_maps
from tinylm.vocab.token_store import TokenStore, write_store

TOKENS = [f"w{i}" for i in range(99)]


def test_maps_are_causal_and_the_likeliest_next_token_is_that_of_the_logits(model):
    ids = [0, 5, 7, 4, 9]
    result = attention(model, ids)
    assert result.maps.shape == (2, 3, 5, 5)
    assert result.maps.dtype == np.float32
    assert np.array_equal(result.maps, np.tril(result.maps))
    assert result.maps.sum(-1) == pytest.approx(np.ones((2, 3, 5)), abs=1e-5)
    probabilities = torch.softmax(model(torch.tensor([ids])).detach()[0, -1].double(), dim=-1)
    assert result.next_id == int(probabilities.argmax())
    assert result.next_prob == pytest.approx(float(probabilities.max()), rel=1e-6)


def test_passages_are_starts_of_stories_and_of_few_stories_further_pieces(corpus, tmp_path):
    store = TokenStore(corpus[0] / "tokens", "evaluation")
    starts = [store.story(0)[:13].tolist(), store.story(3).tolist()]
    assert [ids.tolist() for ids in passages(store, 2, 13)] == starts
    pieces = passages(store, 99, 7)
    cuts = []
    for story in map(store.story, range(len(store))):
        cuts += [tuple(story[start : start + 7]) for start in range(0, len(story), 7)]
    assert [tuple(piece) for piece in pieces] == list(dict.fromkeys(cuts))  # each once
    assert len(pieces) < len(cuts)
    write_store(tmp_path, "one", [range(50)], 50)
    parts = passages(TokenStore(tmp_path, "one"), 3, 10)
    assert [(ids[0], ids[-1]) for ids in parts] == [(0, 9), (20, 29), (40, 49)]


def test_files_hold_words_maps_and_what_comes_next(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_store("tokens", "two", [range(1, 14), [0, *range(6, 13)] * 4], 99)
    store = TokenStore("tokens", "two")
    write_maps(model, TOKENS, store, 2)
    with np.load("data/evaluate/attention.npz", allow_pickle=False) as arrays:
        names = ("words", "maps", "next", "next_prob")
        assert sorted(arrays) == sorted(f"{name}_{i}" for name in names for i in (1, 2))
        assert arrays["words_1"].tolist() == TOKENS[1:14]
        result = attention(model, range(1, 14))
        assert np.array_equal(arrays["maps_1"], result.maps)
        assert str(arrays["next_1"]) == TOKENS[result.next_id]
        assert float(arrays["next_prob_1"]) == result.next_prob
        assert len(arrays["words_2"]) <= MAX_TOKENS
