import dataclasses

import numpy as np
import pytest
import torch

from tests.embedding.test_vectors import SETTINGS, made_for
from tinylm.embedding import counts
from tinylm.embedding.counts import (
    count_pairs,
    count_vectors,
    left_vectors,
    positive_information,
)
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.words import build_tokenizer, count_words

SIZE = 9


def stream(length, size=SIZE):
    return np.random.default_rng(1).integers(0, size, length)


def slow_counts(ids, size, window):
    found = np.zeros((size, size))
    for place, word in enumerate(ids):
        for other in range(max(0, place - window), min(len(ids), place + window + 1)):
            if other != place:
                found[word, ids[other]] += 1 / abs(other - place)
    return found


def dense(places, found, size):
    table = np.zeros((size, size))
    table[places // size, places % size] = found
    return table


@pytest.mark.parametrize("window", [1, 3, 50])
def test_pairs_are_those_of_a_slow_count(window):
    ids = stream(40)
    places, found = count_pairs(ids, SIZE, window)
    assert (np.diff(places) > 0).all()
    assert np.allclose(dense(places, found, SIZE), slow_counts(ids, SIZE, window))


def test_pairs_are_summed_over_pieces_of_the_stream(monkeypatch):
    ids = stream(60)
    monkeypatch.setattr(counts, "TOKENS_AT_ONCE", 20)
    pieces = sum(slow_counts(ids[start : start + 20], SIZE, 2) for start in (0, 20, 40))
    assert np.allclose(dense(*count_pairs(ids, SIZE, 2), SIZE), pieces)


def test_information_is_that_of_its_formula():
    places, found = count_pairs(stream(50, 6), SIZE, 2)  # three ids never occur
    table = dense(places, found, SIZE)
    smoothed = table.sum(0) ** counts.POWER
    with np.errstate(divide="ignore", invalid="ignore"):
        wanted = np.log(table / table.sum(1, keepdims=True) / (smoothed / smoothed.sum()))
    assert np.allclose(
        positive_information(places, found, SIZE).to_dense(),
        np.nan_to_num(wanted, neginf=0).clip(0),
    )


def test_directions_are_those_of_an_exact_decomposition():
    generator = torch.Generator().manual_seed(1)
    left, right = (torch.randn(60, 5, generator=generator) for _ in range(2))
    matrix = (left * torch.tensor([9.0, 7.0, 5.0, 3.0, 1.0])) @ right.T
    axes, scales, _ = torch.linalg.svd(matrix)
    found = left_vectors(matrix.to_sparse().coalesce(), 5, seed=3)
    wanted = axes[:, :5] * scales[:5]
    assert torch.allclose(found.abs(), wanted.abs(), atol=1e-2)
    assert torch.allclose(found @ found.T, matrix @ matrix.T, rtol=1e-3, atol=1.0)


def test_vectors_have_mean_square_1_and_missing_ids_none():
    vectors = count_vectors(stream(500, 7), SIZE, 4, window=2, seed=1)
    assert vectors.dtype == np.float32
    assert not vectors[7:].any()
    assert np.square(vectors[:7]).mean() == pytest.approx(1.0, abs=1e-5)
    assert np.array_equal(vectors, count_vectors(stream(500, 7), SIZE, 4, window=2, seed=1))


@pytest.mark.parametrize("ids", [[], [3], [3, 3], [1, 2]])
def test_hardly_any_text_gives_finite_vectors_of_the_width(ids):
    vectors = count_vectors(np.array(ids, dtype=np.int64), SIZE, 20, window=5, seed=1)
    assert vectors.shape == (SIZE, 20)
    assert np.isfinite(vectors).all()


def test_words_with_like_neighbours_have_like_vectors():
    rule = VocabSettings(tokenizer="words")
    texts = [
        f"the {animal} can {does} now"
        for animal in ("cat", "dog")
        for does in ("run", "eat", "hide")
    ]
    texts += [
        f"a {colour} {thing} is here" for colour in ("red", "blue") for thing in ("ball", "box")
    ]
    tok = build_tokenizer(count_words(texts * 5, rule), rule)
    settings = dataclasses.replace(SETTINGS, source="counts", width=6, std=0.05)
    matrix, info = made_for(settings, tok, texts * 5)
    cat, dog, red = (matrix[tok.encode(word)[0]] for word in ("cat", "dog", "red"))

    def cosine(a, b):
        return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))

    assert cosine(cat, dog) > 0.9 > 0.5 > cosine(cat, red)
    assert info["covered"] == info["words"]
    assert info["std"] == pytest.approx(0.05, rel=0.2)
    assert matrix[tok.sos_id].any()
    assert not matrix[tok.pad_id].any()


def test_the_number_of_threads_changes_no_bit():
    ids = np.random.default_rng(1).integers(0, 3000, 200_000)
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(count_vectors(ids, 3000, 64, 2, seed=1))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert np.array_equal(*found)
