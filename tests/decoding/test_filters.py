"""Filters of logits by their definitions, in plain Python."""

import pytest
import torch

from tinylm.decoding import filters

NEVER = float("-inf")
ROWS, WORDS = 7, 31


@pytest.fixture
def logits() -> torch.Tensor:
    return torch.randn(ROWS, WORDS, generator=torch.Generator().manual_seed(2)) * 3


def softmax(row: torch.Tensor) -> list[float]:
    return torch.softmax(row.double(), -1).tolist()


def test_ban(logits):
    banned = filters.ban(logits, [2, 0])
    others = [1, *range(3, WORDS)]
    assert (banned[:, [0, 2]] == NEVER).all()
    assert torch.equal(banned[:, others], logits[:, others])
    assert torch.equal(filters.ban(logits, []), logits)


def test_penalise_repeats_matches_its_definition(logits):
    logits[0, :2] = torch.tensor([0.0, NEVER])
    seen = torch.rand(ROWS, WORDS, generator=torch.Generator().manual_seed(4)) < 0.3
    seen[0, :2] = True
    before = logits.clone()
    penalised = filters.penalise_repeats(logits, seen, 1.7)
    for row in range(ROWS):
        for word in range(WORDS):
            z = float(logits[row, word])
            expected = z
            if seen[row, word]:
                expected = z / 1.7 if z > 0 else z * 1.7
            assert float(penalised[row, word]) == pytest.approx(expected, rel=1e-6)
    assert torch.equal(logits, before)  # the log-probabilities come from them


@pytest.mark.parametrize("temperature", [1e-9, 5e-324, 1.0, 1e6])
def test_extreme_temperatures_are_defined(logits, temperature):
    wild = torch.cat([logits, logits * 1e30, torch.zeros(1, WORDS)])
    wild[:, [0, 2]] = NEVER
    weights = torch.softmax(filters.scale(wild, temperature), dim=-1)
    assert not weights.isnan().any()
    assert (weights[:, [0, 2]] == 0).all()
    if temperature < 1e-8:
        assert torch.equal(weights[:ROWS].argmax(-1), wild[:ROWS].argmax(-1))
        assert (weights[:ROWS].max(-1).values > 0.999).all()


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


def test_a_top_k_of_0_takes_all(logits):
    scores, ids = filters.top_k(logits, 0)
    assert torch.equal(scores, logits)
    assert ids.tolist() == [list(range(WORDS))] * ROWS


@pytest.mark.parametrize("p", [0.0, 1e-9, 0.1, 0.5, 0.9, 0.999, 1.0])
def test_top_p_matches_its_definition(logits, p):
    logits[:, 4] = NEVER
    filtered = filters.top_p(logits, p)
    for row in range(ROWS):
        weights = softmax(logits[row])
        nucleus = []
        for word in sorted(range(WORDS), key=lambda word: -weights[word]):
            if nucleus and p < 1.0 and sum(weights[one] for one in nucleus) >= p:
                break
            nucleus.append(word)
        inside = sorted(set(nucleus) - {4})
        assert (filtered[row] > NEVER).nonzero()[:, 0].tolist() == inside
        assert torch.equal(filtered[row, inside], logits[row, inside])


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


@pytest.mark.parametrize("k", [1, 5, 31])
def test_probability_mass_is_the_probability_of_some_ids(logits, k):
    scaled = filters.scale(logits, 0.7)
    _, ids = filters.top_k(scaled, k)
    masses = filters.probability_mass(scaled, ids)
    for row in range(ROWS):
        weights = softmax(scaled[row])
        expected = sum(weights[word] for word in ids[row].tolist())
        assert float(masses[row]) == pytest.approx(expected, rel=1e-12)
        alone = filters.probability_mass(scaled[row : row + 1], ids[row : row + 1])
        assert torch.equal(alone[0], masses[row])
