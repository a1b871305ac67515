import dataclasses
import zipfile

import numpy as np
import pytest
import torch

from tinylm.evaluate.attention_maps import (
    look,
    map_arrays,
    moment_arrays,
    opening_sentences,
    passages,
    sentence_arrays,
    write_arrays,
)
from tinylm.model.transformer import TinyLM
from tinylm.vocab.token_store import TokenStore, write_store

TOKENS = [f"w{i}" for i in range(99)]


@pytest.fixture
def store(corpus):
    return TokenStore(corpus[0] / "tokens", "evaluation")


def test_maps_are_causal_and_sum_to_one(model):
    maps = look(model, [0, 5, 7, 4, 9]).maps
    assert maps.shape == (2, 3, 5, 5)
    assert maps.dtype == np.float32
    assert np.array_equal(maps, np.tril(maps))
    assert maps.sum(-1) == pytest.approx(np.ones((2, 3, 5)), abs=1e-5)


def test_the_likeliest_next_token_is_that_of_the_logits(model):
    ids = [0, 5, 7, 4, 9]
    found = look(model, ids)
    probabilities = torch.softmax(model(torch.tensor([ids])).detach()[0, -1].double(), dim=-1)
    assert found.next_id == int(probabilities.argmax())
    assert found.next_prob == pytest.approx(float(probabilities.max()), rel=1e-6)


def test_passages_are_starts_of_stories_spread_over_the_split(store):
    assert [s.tolist() for s in passages(store, 2, 13)] == [
        store.story(0)[:13].tolist(),
        store.story(3).tolist(),
    ]
    assert max(map(len, passages(store, 4, 5))) == 5
    assert len(passages(store, 4, 5)) == 4


def test_a_split_of_few_stories_gives_further_pieces(store, tmp_path):
    pieces = passages(store, 99, 7)
    assert np.concatenate(pieces).tolist() == store.ids.tolist()
    assert max(map(len, pieces)) == 7
    write_store(tmp_path, "one", [range(50)], 50)
    one = TokenStore(tmp_path, "one")
    assert [s.tolist() for s in passages(one, 3, 10)] == [
        [*range(10)],
        [*range(20, 30)],
        [*range(40, 50)],
    ]


def test_opening_sentences_can_be_read(tmp_path):
    write_store(tmp_path, "one", [range(50), range(30)], 50)
    assert [len(s) for s in opening_sentences(TokenStore(tmp_path, "one"), 2, 40)] == [24, 24]


def test_sentence_arrays_hold_words_maps_and_what_comes_next(model, tmp_path):
    sentences = [np.array([0, 5, 7]), np.array([0, 6, 4, 8])]
    write_arrays(tmp_path / "a.npz", sentence_arrays(model, TOKENS, sentences))
    with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
        assert sorted(arrays) == sorted(
            f"{n}_{i}" for n in ("words", "maps", "next", "next_prob") for i in (1, 2)
        )
        assert arrays["words_2"].tolist() == ["w0", "w6", "w4", "w8"]
        assert np.array_equal(arrays["maps_1"], look(model, sentences[0]).maps)
        assert str(arrays["next_2"]) == TOKENS[look(model, sentences[1]).next_id]
        assert float(arrays["next_prob_2"]) == look(model, sentences[1]).next_prob


def test_moments_stand_side_by_side(model):
    ids = np.array([0, 5, 7, 4])
    torch.manual_seed(9)
    other = TinyLM(dataclasses.replace(model.settings), torch.randn_like(model.embedding)).eval()
    arrays = moment_arrays([(0.5, other), (2.0, model)], TOKENS, ids)
    assert arrays["epochs"].tolist() == [0.5, 2.0]
    assert arrays["words"].tolist() == ["w0", "w5", "w7", "w4"]
    assert arrays["maps"].shape == (2, 2, 3, 4, 4)
    assert np.array_equal(arrays["maps"][1], look(model, ids).maps)
    assert not np.array_equal(arrays["maps"][0], arrays["maps"][1])
    seen = [look(other, ids), look(model, ids)]
    assert arrays["next"].tolist() == [TOKENS[found.next_id] for found in seen]
    assert arrays["next_prob"].tolist() == [found.next_prob for found in seen]


def test_each_file_has_its_arrays(model):
    ids = [np.array([0, 5, 7, 4]), np.array([0, 6])]
    assert list(map_arrays(model, [], TOKENS, ids)) == ["attention"]
    found = map_arrays(model, [(0.5, model)], TOKENS, ids)
    assert found["attention"].keys() == sentence_arrays(model, TOKENS, ids).keys()
    assert found["moments"]["words"].tolist() == ["w0", "w5", "w7", "w4"]


def test_arrays_have_the_same_bytes_from_every_python(tmp_path):
    """np.savez leaves the version of a ZIP entry to Python's zipfile: 3.11.2 and 3.11.7 differ."""
    write_arrays(
        tmp_path / "a.npz",
        {"words_1": np.array(["a", "b"]), "maps_1": np.zeros((2, 2), dtype=np.float32)},
    )
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        entries = archive.infolist()
    assert [entry.filename for entry in entries] == ["words_1.npy", "maps_1.npy"]
    assert {(entry.extract_version, entry.extra, entry.date_time) for entry in entries} == {
        (20, b"", (1980, 1, 1, 0, 0, 0))
    }
    with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
        assert arrays["words_1"].tolist() == ["a", "b"]
