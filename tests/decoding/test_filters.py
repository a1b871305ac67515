"""Ties, sums that are just reached, and rounding in the filters; test_sampling has their definitions."""

import pytest
import torch

from tinylm.decoding import filters

NEVER = float("-inf")
ROWS, WORDS = 7, 31


@pytest.fixture
def logits() -> torch.Tensor:
    return torch.randn(ROWS, WORDS, generator=torch.Generator().manual_seed(2)) * 3


def test_a_score_in_half_a_million_keeps_its_place():
    z = torch.tensor([[1e6, 1e6 - 0.0625]], dtype=torch.float32)
    assert filters.scale(z, 0.5).tolist() == [[0.0, -0.125]]


@pytest.mark.parametrize("k", [1, 5, 30, 31, 1000])
def test_the_k_largest_are_those_of_a_sort_with_ties_by_id(logits, k):
    coarse = logits.round()  # many equal scores
    coarse[0] = 0.0
    for scores in (logits, coarse):
        values, ids = filters.stable_topk(scores, k)
        by_id, ids_of_top = filters.top_k(scores, k)
        for row in range(ROWS):
            best = sorted(range(WORDS), key=lambda word: (-float(scores[row, word]), word))[:k]
            assert ids[row].tolist() == best
            assert values[row].tolist() == scores[row, best].tolist()
            assert ids_of_top[row].tolist() == sorted(best)
            assert by_id[row].tolist() == scores[row, sorted(best)].tolist()


@pytest.mark.parametrize(
    ("p", "nucleus"),
    [(0.25, [0]), (0.2500001, [0, 1]), (0.5, [0, 1]), (0.75, [0, 1, 2]), (0.9, [0, 1, 2, 3])],
)
def test_a_sum_that_is_reached_is_enough_and_ties_go_to_the_lower_id(p, nucleus):
    assert (filters.top_p(torch.zeros(1, 4), p) > NEVER)[0].nonzero()[:, 0].tolist() == nucleus


def test_the_nucleus_of_many_equal_words_and_of_all():
    many = torch.zeros(3, 1000)  # enough for a sort that is not stable to show
    assert (filters.top_p(many, 0.1)[2] > NEVER).nonzero()[:, 0].tolist() == list(range(100))
    peaky = torch.tensor([[100.0, 0.0, -100.0]])  # 1 keeps even what is too small to move a sum
    assert torch.equal(filters.top_p(peaky, 1.0), peaky)
