"""Log-probabilities against one window at a time, by log-softmax in float64."""

import math

import pytest
import torch

from tinylm.evaluate.scoring import perplexity, sequence_nats, token_log_probs


def test_perplexity_of_a_fair_choice_is_its_size():
    assert perplexity(7 * math.log(5), 7) == pytest.approx(5)
    assert perplexity(1e6, 1) == math.inf
    with pytest.raises(ValueError, match="no token"):
        perplexity(0.0, 0)


@pytest.mark.parametrize("slide", ["half", "one"])
@pytest.mark.parametrize(("length", "first"), [(5, 1), (13, 4), (14, 13), (31, 2), (40, 39)])
def test_token_log_probs_equal_one_window_at_a_time(model, slide, length, first):
    generator = torch.Generator().manual_seed(length)
    ids = torch.randint(4, model.vocab_size, (length,), generator=generator).tolist()
    step = model.settings.context // 2 if slide == "half" else 1
    expected = []
    for n in range(first, length):
        start = 0
        while n - start > model.settings.context:
            start += step
        logits = model(torch.tensor([ids[start:n]])).detach()[0, -1].double()
        expected.append(float(torch.log_softmax(logits, 0)[ids[n]]))
    assert token_log_probs(model, ids, first, slide) == pytest.approx(expected, abs=1e-5)


def test_sums_over_a_batch_are_those_of_each_sequence(model):
    rows = [[0, 5, 7, 4, 9, 1], [0, 8, 1], [0, 4, 4, 6, 10], [0, 8, 1]]
    nats = sequence_nats(model, rows, batch_rows=2)
    for row, value in zip(rows, nats, strict=True):
        logits = model(torch.tensor([row[:-1]]))[0].detach().double()
        log_probs = torch.log_softmax(logits, dim=-1)
        expected = -sum(float(log_probs[i, token]) for i, token in enumerate(row[1:]))
        assert value == pytest.approx(expected, abs=1e-4)
    assert sequence_nats(model, [], batch_rows=2).tolist() == []
