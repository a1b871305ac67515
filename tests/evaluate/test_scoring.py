"""Log-probabilities against one window at a time, by log-softmax in float64."""

import math

import pytest
import torch

from tinylm.evaluate.scoring import perplexity, token_log_probs


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
