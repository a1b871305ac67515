import pytest
import torch

from tinylm.decoding import filters

NEVER = float("-inf")


@pytest.fixture
def logits() -> torch.Tensor:
    return torch.randn(7, 31, generator=torch.Generator().manual_seed(2)) * 3


def test_ban(logits):
    banned = filters.ban(logits, [2, 0])
    assert (banned[:, [0, 2]] == NEVER).all()
    assert torch.equal(banned[:, [1, *range(3, 31)]], logits[:, [1, *range(3, 31)]])
    assert torch.equal(filters.ban(logits, []), logits)


def test_penalise_repeats_matches_its_definition(logits):
    seen = torch.rand(7, 31, generator=torch.Generator().manual_seed(4)) < 0.3
    found = filters.penalise_repeats(logits, seen, 1.7)
    for row in range(7):
        for word in range(31):
            z = float(logits[row, word])
            expected = z if not seen[row, word] else (z / 1.7 if z > 0 else z * 1.7)
            assert float(found[row, word]) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("temperature", [1e-9, 5e-324, 1.0, 1e6])
def test_extreme_temperatures_are_defined(logits, temperature):
    wild = torch.cat([logits, logits * 1e30, torch.zeros(1, 31)])
    wild[:, [0, 2]] = NEVER
    weights = torch.softmax(filters.scale(wild, temperature), dim=-1)
    assert not weights.isnan().any()
    assert (weights[:, [0, 2]] == 0).all()
    if temperature < 1e-8:
        assert torch.equal(
            weights[:7].argmax(-1), logits.index_fill(1, torch.tensor([0, 2]), NEVER).argmax(-1)
        )
        assert (weights[:7].max(-1).values > 0.999).all()


@pytest.mark.parametrize("k", [1, 5, 30, 31, 1000])
def test_largest_orders_ties_by_id(logits, k):
    coarse = logits.round()  # many equal scores
    coarse[0] = 0.0
    for scores in (logits, coarse):
        values, ids = filters.largest(scores, k)
        for row in range(7):
            expected = sorted(range(31), key=lambda word: (-float(scores[row, word]), word))[:k]
            assert ids[row].tolist() == expected
            assert values[row].tolist() == scores[row, expected].tolist()


@pytest.mark.parametrize("k", [0, 1, 5, 31, 10**9])
def test_top_k_matches_its_definition(logits, k):
    scores, ids = filters.top_k(logits.round(), k)
    for row in range(7):
        best = sorted(range(31), key=lambda word: (-float(logits[row, word].round()), word))[
            : k or 31
        ]
        assert ids[row].tolist() == sorted(best)
        assert scores[row].tolist() == logits[row, sorted(best)].round().tolist()


@pytest.mark.parametrize("p", [0.0, 1e-9, 0.1, 0.5, 0.9, 0.999, 1.0])
def test_top_p_matches_its_definition(logits, p):
    scores = logits.clone()
    scores[:, 4] = NEVER
    found = filters.top_p(scores, p)
    for row in range(7):
        weights = torch.softmax(scores[row].double(), -1).tolist()
        kept, total = [], 0.0
        for word in sorted(range(31), key=lambda word: -weights[word]):
            if kept and total >= p and p < 1.0:
                break
            kept.append(word)
            total += weights[word]
        inside = sorted(set(kept) - {4})
        assert (found[row] > NEVER).nonzero()[:, 0].tolist() == inside
        assert torch.equal(found[row, inside], scores[row, inside])


def test_probability_mass_is_the_probability_of_some_ids(logits):
    scaled = filters.scale(logits, 0.7)
    for k in (1, 5, 31):
        _, ids = filters.top_k(scaled, k)
        expected = [
            sum(torch.softmax(scaled[row].double(), -1)[ids[row]].tolist()) for row in range(7)
        ]
        assert filters.probability_mass(scaled, ids).tolist() == pytest.approx(expected, rel=1e-12)
        assert all(
            torch.equal(
                filters.probability_mass(scaled[row : row + 1], ids[row : row + 1])[0],
                filters.probability_mass(scaled, ids)[row],
            )
            for row in range(7)
        )


def test_filters_work_where_the_logits_are(logits):
    """On "meta", a tensor that was made on the CPU by mistake is an error, as on a GPU."""
    there = logits.to("meta")
    assert filters.ban(there, [1, 2]).device.type == "meta"
    for k in (0, 31):
        scores, ids = filters.top_k(there, k)
        assert (scores.device.type, ids.device.type, ids.shape) == ("meta", "meta", (7, 31))


def test_nothing_is_changed_in_place(logits):
    scores, seen = logits.round(), torch.ones(7, 31, dtype=torch.bool)
    before = scores.clone()
    for call in (
        lambda: filters.ban(scores, [1]),
        lambda: filters.penalise_repeats(scores, seen, 2.0),
        lambda: filters.scale(scores.double(), 0.5),
        lambda: filters.largest(scores, 4),
        lambda: filters.top_k(scores, 4),
        lambda: filters.top_p(scores, 0.5),
    ):
        call()
        assert torch.equal(scores, before)


def test_a_penalised_zero_stays_zero_and_the_sign_decides():
    z = torch.tensor([[2.0, 0.0, -2.0, NEVER]])
    found = filters.penalise_repeats(z, torch.tensor([[True, True, True, True]]), 4.0)
    assert found.tolist() == [[0.5, 0.0, -8.0, NEVER]]


def test_a_score_in_half_a_million_keeps_its_place():
    z = torch.tensor([[1e6, 1e6 - 0.0625]], dtype=torch.float32)
    assert filters.scale(z, 0.5).tolist() == [[0.0, -0.125]]


def test_the_nucleus_at_its_bounds():
    """Ties go to the lower id, a sum that is reached is enough, and 1 keeps even what is too small to move a sum."""
    equal = torch.zeros(1, 4)
    for p, kept in [
        (0.25, [0]),
        (0.2500001, [0, 1]),
        (0.5, [0, 1]),
        (0.75, [0, 1, 2]),
        (0.9, [0, 1, 2, 3]),
    ]:
        assert (filters.top_p(equal, p) > NEVER)[0].nonzero()[:, 0].tolist() == kept
    many = torch.zeros(3, 1000)  # enough for a sort that is not stable to show
    assert (filters.top_p(many, 0.1)[2] > NEVER).nonzero()[:, 0].tolist() == list(range(100))
    peaky = torch.tensor([[100.0, 0.0, -100.0]])
    assert torch.equal(filters.top_p(peaky, 1.0), peaky)
