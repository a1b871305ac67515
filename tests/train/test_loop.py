import math

import pytest
import torch
from torch.nn import functional as F

from tinylm.base.config import InputError
from tinylm.train.curves import Curves, TrainResult, run_metrics
from tinylm.train.loop import train
from tinylm.train.trainer import accumulate_gradients


@pytest.fixture
def start(new_run, new_settings):
    """start(settings): the result of a run of the small model."""
    return lambda **changes: train(new_run(new_settings(**changes)))


@pytest.mark.parametrize(("recompute", "tied"), [("none", True), ("blocks", False)])
def test_accumulated_gradients_are_those_of_the_mean_over_all_tokens(
    new_model, new_settings, ragged, recompute, tied
):
    model = new_model(new_settings(recompute=recompute), tied_output=tied).double()
    nats = accumulate_gradients(model, ragged, "fp32")
    ours = {name: parameter.grad for name, parameter in model.named_parameters()}
    total = 0.0
    for batch in ragged:
        logits = model(batch.inputs).flatten(0, 1)
        targets = batch.targets.flatten()
        total += F.cross_entropy(logits, targets, ignore_index=-1, reduction="sum")
    assert nats.item() == pytest.approx(total.item(), rel=1e-12)
    model.zero_grad()
    (total / 39).backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(ours[name], parameter.grad, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("optimizer", "precision"),
    [("adamw", "bf16"), ("muon", "bf16")],
)
def test_training_learns_what_can_be_learnt(new_model, new_settings, new_run, optimizer, precision):
    settings = new_settings(optimizer=optimizer, precision=precision, tokens=5000)
    result = train(new_run(settings, model=new_model(settings)))
    first = result.curves.held_out[0][2]
    assert first > 2.5
    # only the first number of a story and its end stay a guess
    assert result.curves.held_out[-1][2] < 0.6 * first


@pytest.mark.parametrize("key", ["tokens", "epochs"])
def test_a_budget_below_one_update_is_refused(start, new_batches, key):
    least = new_batches().batch(0).tokens
    budget = {"tokens": None, "epochs": 0.001} if key == "epochs" else {key: least - 1}
    with pytest.raises(InputError, match=rf"train\.{key}.* {least}"):
        start(**budget)
    assert len(start(tokens=least).curves.tokens) == 1


@pytest.mark.parametrize(("epochs", "accumulation"), [(1.0, 10), (2.0, 3)])
def test_a_budget_of_epochs_is_used_up_by_a_smaller_last_update(
    start, new_batches, epochs, accumulation
):
    batches = new_batches()
    result = start(tokens=None, epochs=epochs, accumulation=accumulation, final_lr=0.0)
    assert len(batches) * epochs % accumulation
    assert result.tokens == epochs * batches.tokens_per_epoch
    assert result.curves.rate[-1] < 0.1 * max(result.curves.rate)
    assert len(run_metrics(result, batches)["by_epoch"]) == epochs


@pytest.mark.parametrize("kept_best", [True, False])
def test_the_reported_perplexity_is_that_of_the_saved_weights(new_batches, kept_best):
    curves = Curves(train=[2.0], tokens=[10], held_out=[(0, 0, 1.5), (1, 10, 2.5)])
    metrics = run_metrics(TrainResult(curves, False, kept_best, 1.0), new_batches())
    assert metrics["held_out_perplexity"] == pytest.approx(math.exp(1.5 if kept_best else 2.5))
