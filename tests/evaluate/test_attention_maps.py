"""Attention of single rows, the passages that are drawn, and the files of arrays."""

from tinylm.evaluate.attention_maps import passages
from tinylm.vocab.token_store import TokenStore, write_store

TOKENS = [f"w{i}" for i in range(99)]


def test_passages_are_starts_of_stories_and_of_few_stories_further_pieces(corpus, tmp_path):
    store = TokenStore(corpus[0] / "tokens", "evaluation")
    starts = [store.story(0)[:13].tolist(), store.story(3).tolist()]
    assert [ids.tolist() for ids in passages(store, 2, 13)] == starts
    write_store(tmp_path, "one", [range(50)], 50)
    parts = passages(TokenStore(tmp_path, "one"), 3, 10)
    assert [(ids[0], ids[-1]) for ids in parts] == [(0, 9), (20, 29), (40, 49)]
