"""Vectors from counts, by their definition and an exact decomposition."""

import numpy as np
import pytest
import torch

from tinylm.embedding import counts
from tinylm.embedding.counts import count_pairs, count_vectors, left_vectors, positive_information

SIZE = 9


def stream(length, size=SIZE):
    return np.random.default_rng(1).integers(0, size, length)


def slow_counts(ids, window):
    table = np.zeros((SIZE, SIZE))
    for position, word in enumerate(ids):
        for other in range(max(0, position - window), min(len(ids), position + window + 1)):
            if other != position:
                table[word, ids[other]] += 1 / abs(other - position)
    return table


def dense(keys, values):
    table = np.zeros((SIZE, SIZE))
    table[keys // SIZE, keys % SIZE] = values
    return table


@pytest.mark.parametrize("window", [1, 3, 50])
def test_pairs_are_those_of_a_slow_count(monkeypatch, window):
    ids = stream(40)
    assert np.allclose(dense(*count_pairs(ids, SIZE, window)), slow_counts(ids, window))
    monkeypatch.setattr(counts, "TOKENS_AT_ONCE", 20)
    parts = slow_counts(ids[:20], window) + slow_counts(ids[20:], window)
    assert np.allclose(dense(*count_pairs(ids, SIZE, window)), parts)


def test_information_is_that_of_its_formula():
    keys, values = count_pairs(stream(50, 6), SIZE, 2)  # three ids never occur
    table = dense(keys, values)
    smoothed = table.sum(0) ** counts.CONTEXT_SMOOTHING
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.log(table / table.sum(1, keepdims=True) / (smoothed / smoothed.sum()))
    expected = np.nan_to_num(information, neginf=0).clip(0)
    assert np.allclose(positive_information(keys, values, SIZE).to_dense(), expected)


def test_directions_are_those_of_an_exact_decomposition():
    generator = torch.Generator().manual_seed(1)
    left, right = (torch.randn(60, 5, generator=generator) for _ in range(2))
    matrix = (left * torch.tensor([9.0, 7.0, 5.0, 3.0, 1.0])) @ right.T
    axes, scales, _ = torch.linalg.svd(matrix)
    vectors = left_vectors(matrix.to_sparse().coalesce(), 5, seed=3)
    assert torch.allclose(vectors.abs(), (axes[:, :5] * scales[:5]).abs(), atol=1e-2)


def test_vectors_have_mean_square_1_and_missing_ids_none():
    vectors = count_vectors(stream(500, 7), SIZE, 4, window=2, seed=1)
    assert not vectors[7:].any()
    assert np.square(vectors[:7]).mean() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("ids", [[], [3], [3, 3], [1, 2]])
def test_hardly_any_text_gives_finite_vectors_of_the_width(ids):
    vectors = count_vectors(np.array(ids, dtype=np.int64), SIZE, 20, window=5, seed=1)
    assert vectors.shape == (SIZE, 20)
    assert np.isfinite(vectors).all()


def test_the_number_of_threads_changes_no_bit():
    ids = np.random.default_rng(1).integers(0, 3000, 200_000)
    before = torch.get_num_threads()
    vectors = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            vectors.append(count_vectors(ids, 3000, 64, 2, seed=1))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert np.array_equal(*vectors)
