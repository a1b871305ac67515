import copy
import time

import pytest
import torch
from torch.nn import functional as F

from tinylm.base.config import InputError
from tinylm.train.curves import run_metrics
from tinylm.train.loop import _Loop, train
from tinylm.train.trainer import Trainer, accumulate_gradients
from tinylm.train.validation import split_loss
from tinylm.vocab.batches import Batch


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


def test_every_update_starts_from_fresh_gradients(new_model, new_settings, new_batches, ragged):
    trainer = Trainer(new_model(), new_batches(), new_settings(clip_norm=None))
    trainer.update(ragged[:2])
    other = copy.deepcopy(trainer.model)
    other.zero_grad(set_to_none=True)
    accumulate_gradients(other, ragged[2:], "fp32")
    trainer.update(ragged[2:])
    for one, parameter in zip(trainer.model.parameters(), other.parameters(), strict=True):
        assert torch.equal(one.grad, parameter.grad)


@pytest.mark.parametrize(
    ("optimizer", "precision"),
    [("adam", "fp32"), ("adamw", "fp32"), ("muon", "fp32"), ("muon", "bf16")],
)
def test_training_learns_what_can_be_learnt(new_model, new_settings, new_run, optimizer, precision):
    settings = new_settings(optimizer=optimizer, precision=precision, tokens=5000)
    result = train(new_run(settings, model=new_model(settings)))
    first = result.curves.held_out[0][2]
    assert first > 2.5
    # only the first number of a story and its end stay a guess
    assert result.curves.held_out[-1][2] < 0.6 * first


@pytest.mark.parametrize("budget", [1000, 1777])
@pytest.mark.parametrize("accumulation", [1, 3])
def test_training_stops_before_the_update_that_would_pass_the_budget(
    start, new_batches, budget, accumulation
):
    curves = start(tokens=budget, accumulation=accumulation).curves
    updates = len(curves.tokens)
    batches = new_batches()
    sizes = [batches.batch(i).tokens for i in range((updates + 1) * accumulation)]
    seen = sum(sizes[: updates * accumulation])
    assert updates > 3
    assert curves.tokens[-1] == seen <= budget < sum(sizes)


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


@pytest.mark.parametrize(("every", "updates"), [(4, [0, 4, 8, 12]), (5, [0, 5, 10, 12])])
def test_held_out_is_measured_before_the_first_and_after_the_last_update(
    new_run, new_settings, new_batches, held_out, every, updates
):
    samples = []
    budget = sum(new_batches().batch(i).tokens for i in range(12))
    run = new_run(new_settings(tokens=budget, validate_every=every))
    before = split_loss(run.model, held_out())
    result = train(run, sample_every=every, on_sample=samples.append)
    measured = result.curves.held_out
    assert [update for update, _, _ in measured] == updates
    assert [tokens for _, tokens, _ in measured] == samples
    assert measured[0][1:] == (0, before[0] / before[1])
    assert measured[-1][1] == result.curves.tokens[-1] == budget
    after = split_loss(run.model, held_out())
    assert measured[-1][2] == after[0] / after[1]


def test_the_rate_follows_the_schedule_at_the_middle_of_each_update(start):
    curves = start(tokens=1000, warmup=0.5, schedule="constant", lr=0.01).curves
    begin = 0
    for rate, end in zip(curves.rate, curves.tokens, strict=True):
        assert rate == pytest.approx(0.01 * min(1.0, (begin + end) / 2 / 500), rel=1e-12)
        begin = end


@pytest.fixture
def shuffled(held_out):
    """The held-out split with the wrong targets: the better the model, the worse its loss."""

    def batches():
        for batch in held_out():
            wrong = torch.where(batch.targets >= 4, 4 + (batch.targets + 1) % 13, batch.targets)
            yield Batch(batch.inputs, wrong, batch.tokens)

    return batches


def test_early_stopping_leaves_the_weights_of_the_best_held_out_loss(
    new_run, new_settings, shuffled
):
    settings = new_settings(tokens=10**5, validate_every=2, patience=3)
    run = new_run(settings, held_out=shuffled)
    result = train(run)
    losses = {update: loss for update, _, loss in result.curves.held_out}
    assert result.stopped_early
    best = min(losses, key=losses.get)
    assert max(losses) == best + 6  # three validations in a row without better
    nats, tokens = split_loss(run.model, shuffled())
    assert nats / tokens == losses[best]


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"tokens": None}, "tokens"),
        ({"epochs": 2.5}, "tokens"),
        ({"processes": 9}, "processes"),
    ],
)
def test_rules_between_the_settings(new_settings, changes, key):
    (problem,) = new_settings(**changes).problems()
    assert problem.startswith(key)


@pytest.mark.parametrize(("used", "lines"), [(time.perf_counter, 0), (lambda: 1.0, 1)])
def test_a_run_that_others_slow_down_says_so_once(start, monkeypatch, capsys, used, lines):
    monkeypatch.setattr(_Loop, "window_s", 0.0)
    monkeypatch.setattr(time, "thread_time", used)
    start(tokens=2000)
    assert capsys.readouterr().out.count("other programs") == lines
