import copy
import math

import pytest
import torch
from torch.nn import functional as F

from tinylm.base.config import InputError
from tinylm.train.loop import train
from tinylm.train.sampling import NEW_TOKENS, sample
from tinylm.train.split_loss import split_loss
from tinylm.train.trainer import Trainer, TrainingFailed, accumulate_gradients
from tinylm.vocab.batches import Batch

CONTEXT = 13
OPTIMIZERS = ["adam", "adamw", "muon"]


def one_batch(batches: list[Batch]) -> Batch:
    """All rows in one batch, padded to the widest."""
    width = max(batch.inputs.shape[1] for batch in batches)

    def joined(name: str, fill: int) -> torch.Tensor:
        return torch.cat(
            [F.pad(getattr(b, name), (0, width - b.inputs.shape[1]), value=fill) for b in batches]
        )

    return Batch(joined("inputs", 2), joined("targets", -1), sum(batch.tokens for batch in batches))


def gradients(model, batches, precision="fp32"):
    model.zero_grad(set_to_none=True)
    figures = accumulate_gradients(model, batches, precision)
    return figures, {name: p.grad for name, p in model.named_parameters()}


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_accumulated_gradients_equal_the_full_batchs_on_ragged_batches(
    new_model, new_settings, ragged, recompute, tied
):
    model = new_model(
        new_settings(recompute="blocks" if recompute else "none"), tied_output=tied
    ).double()
    (nats, tokens), parts = gradients(model, ragged)
    (all_nats, all_tokens), whole = gradients(model, [one_batch(ragged)])
    assert tokens == all_tokens == 39
    assert nats == pytest.approx(all_nats, rel=1e-13)
    for name, gradient in whole.items():
        torch.testing.assert_close(parts[name], gradient, rtol=1e-11, atol=1e-13)


def test_the_gradient_is_that_of_the_mean_over_tokens(new_model, ragged):
    model = new_model().double()
    (nats, tokens), ours = gradients(model, ragged)
    batch = one_batch(ragged)
    mean = F.cross_entropy(
        model(batch.inputs).flatten(0, 1), batch.targets.flatten(), ignore_index=-1
    )
    assert nats / tokens == pytest.approx(mean.item(), rel=1e-12)
    wanted = torch.autograd.grad(mean, list(model.parameters()))
    for one, other in zip(ours.values(), wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_update_over_mini_batches_equals_one_over_the_full_batch(
    new_model, new_settings, new_batches, ragged, optimizer
):
    models = [new_model().double() for _ in "ab"]
    for model, batches in zip(models, (ragged, [one_batch(ragged)]), strict=True):
        Trainer(model, new_batches(), new_settings(optimizer=optimizer, eps=1e-3)).update(batches)
    for one, other in zip(*(m.parameters() for m in models), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9)


def test_every_update_starts_from_fresh_gradients(new_model, new_settings, new_batches, ragged):
    trainer = Trainer(new_model(), new_batches(), new_settings(clip_norm=None))
    trainer.update(ragged[:2])
    _, wanted = gradients(copy.deepcopy(trainer.model), ragged[2:])
    trainer.update(ragged[2:])
    for name, parameter in trainer.model.named_parameters():
        assert torch.equal(parameter.grad, wanted[name])


def test_accumulation_takes_the_next_mini_batches_in_order(new_model, new_settings, new_batches):
    batches = new_batches(batch_size=4)
    trainer = Trainer(new_model(), batches, new_settings(accumulation=3))
    for update in range(3):
        taken = trainer.next_batches()
        for place, batch in enumerate(taken):
            assert torch.equal(batch.inputs, batches.batch(3 * update + place).inputs)
        trainer.update(taken)


@pytest.mark.parametrize(
    ("optimizer", "precision"), [*((name, "fp32") for name in OPTIMIZERS), ("muon", "bf16")]
)
def test_training_learns_what_can_be_learnt(
    new_model, new_settings, new_batches, held_out, optimizer, precision
):
    settings = new_settings(optimizer=optimizer, precision=precision, tokens=5000)
    model = new_model(settings)
    result = train(model, new_batches(), held_out, settings)
    first, last = result.curves.held_out[0][2], result.last_held_out
    assert first > 2.5
    assert last < 0.6 * first  # only the first number of a story and its end stay a guess
    assert split_loss(model, held_out(), precision)[0] / split_loss(model, held_out())[
        1
    ] == pytest.approx(last)


@pytest.mark.parametrize("layout", ["stories", "stream", "windows"])
def test_the_same_run_twice_gives_the_same_bytes(
    new_model, new_settings, new_batches, held_out, layout
):
    runs = []
    for _ in range(2):
        torch.manual_seed(9)
        model = new_model(dropout=0.2)
        result = train(
            model, new_batches(layout=layout), held_out, new_settings(layout=layout, tokens=1500)
        )
        runs.append((model.state_dict(), result.curves))
    assert all(torch.equal(runs[0][0][name], tensor) for name, tensor in runs[1][0].items())
    assert runs[0][1] == runs[1][1]


@pytest.mark.parametrize("budget", [1000, 1777])
@pytest.mark.parametrize("accumulation", [1, 3])
def test_training_stops_before_the_update_that_would_pass_the_budget(
    new_model, new_settings, new_batches, held_out, budget, accumulation
):
    batches = new_batches()
    result = train(
        new_model(), batches, held_out, new_settings(tokens=budget, accumulation=accumulation)
    )
    seen, updates = 0, 0
    while True:
        group = [batches.batch(updates * accumulation + i).tokens for i in range(accumulation)]
        if seen + sum(group) > budget:
            break
        seen, updates = seen + sum(group), updates + 1
    assert updates > 3
    assert (result.curves.updates[-1], result.curves.tokens[-1]) == (updates, seen)
    assert (
        len(result.curves.train)
        == len(result.curves.rate)
        == len(result.curves.grad_norm)
        == updates
    )


def test_a_budget_below_one_update_is_refused(new_model, new_settings, new_batches, held_out):
    batches = new_batches()
    least = batches.batch(0).tokens
    with pytest.raises(
        InputError, match=rf"train\.tokens = {least - 1}; allowed: at least {least}, one update"
    ):
        train(new_model(), batches, held_out, new_settings(tokens=least - 1))
    assert train(new_model(), batches, held_out, new_settings(tokens=least)).curves.updates == [1]


@pytest.mark.parametrize("every", [4, 5])
def test_held_out_is_measured_before_the_first_and_after_the_last_update(
    new_model, new_settings, new_batches, held_out, every
):
    model, batches, samples = new_model(), new_batches(), []
    budget = sum(batches.batch(i).tokens for i in range(12))
    settings = new_settings(tokens=budget, validate_every=every, sample_every=every)
    before = split_loss(model, held_out())
    result = train(model, batches, held_out, settings, on_sample=samples.append)
    measured = result.curves.held_out
    assert [update for update, _, _ in measured] == (
        [0, 4, 8, 12] if every == 4 else [0, 5, 10, 12]
    )
    assert [tokens for _, tokens, _ in measured] == samples
    assert measured[0][1:] == (0, before[0] / before[1])
    assert measured[-1][1] == result.curves.tokens[-1] == budget
    after = split_loss(model, held_out())
    assert measured[-1][2] == result.last_held_out == after[0] / after[1]


def test_the_sample_is_drawn_without_dropout_and_moves_no_weight(
    new_model, new_settings, new_batches, held_out
):
    """The sample draws from numbers of its own: weights are the same to the bit."""
    states = []
    for every in (3, 10**6):
        torch.manual_seed(11)
        model = new_model(dropout=0.5)
        settings = new_settings(tokens=1500, sample_every=every)

        def show(_, model=model):
            first = sample(model, [0], end=None, seed=1)
            assert first == sample(model, [0], end=None, seed=1)
            assert len(first) == 1 + NEW_TOKENS
            assert model.training

        train(model, new_batches(), held_out, settings, on_sample=show)
        states.append(model.state_dict())
    assert all(torch.equal(states[0][name], tensor) for name, tensor in states[1].items())


def test_the_rate_follows_the_schedule_at_the_middle_of_each_update(
    new_model, new_settings, new_batches, held_out
):
    settings = new_settings(tokens=1000, warmup=0.5, schedule="constant", lr=0.01)
    curves = train(new_model(), new_batches(), held_out, settings).curves
    start = 0
    for rate, end in zip(curves.rate, curves.tokens, strict=True):
        assert rate == pytest.approx(0.01 * min(1.0, (start + end) / 2 / 500), rel=1e-12)
        start = end


def shuffled(held_out):
    """The held-out split with the wrong targets: the better the model, the worse its loss."""

    def batches():
        for batch in held_out():
            wrong = torch.where(batch.targets >= 4, 4 + (batch.targets + 1) % 13, batch.targets)
            yield Batch(batch.inputs, wrong, batch.tokens)

    return batches


def test_early_stopping_leaves_the_weights_of_the_best_held_out_loss(
    new_model, new_settings, new_batches, held_out
):
    model, wrong = new_model(), shuffled(held_out)
    result = train(
        model, new_batches(), wrong, new_settings(tokens=10**5, validate_every=2, patience=3)
    )
    losses = {update: loss for update, _, loss in result.curves.held_out}
    assert result.stopped_early
    assert result.best_held_out == min(losses.values()) < result.last_held_out
    assert losses[result.best_update] == result.best_held_out
    assert [*losses][-1] == result.best_update + 6  # three validations in a row without better
    nats, tokens = split_loss(model, wrong())
    assert nats / tokens == result.best_held_out


def test_without_patience_the_last_weights_stay(new_model, new_settings, new_batches, held_out):
    model, wrong = new_model(), shuffled(held_out)
    result = train(model, new_batches(), wrong, new_settings(tokens=3000, validate_every=2))
    nats, tokens = split_loss(model, wrong())
    assert not result.stopped_early
    assert nats / tokens == result.last_held_out > result.best_held_out


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_no_number_names_update_and_rate_and_changes_nothing(
    new_model, new_settings, new_batches, optimizer, value
):
    trainer = Trainer(
        new_model(),
        new_batches(),
        new_settings(optimizer=optimizer, schedule="constant", warmup=0.0),
    )
    for _ in range(2):
        trainer.update(trainer.next_batches())
    with torch.no_grad():
        trainer.model.blocks[0].feed_forward.up.weight[0, 0] = value
    before = [p.detach().clone() for p in trainer.parameters]
    with pytest.raises(
        TrainingFailed,
        match=r"^update 3: loss nan, gradient norm nan at learning rate 0.01: not fin",
    ):
        trainer.update(trainer.next_batches())
    assert trainer.updates == 2
    assert all(
        torch.allclose(p, old, rtol=0, atol=0, equal_nan=True)
        for p, old in zip(trainer.parameters, before)
    )


def test_a_gradient_that_is_no_number_stops_training_too(new_model, new_settings, new_batches):
    trainer = Trainer(new_model(), new_batches(), new_settings())
    trainer.parameters[1].register_hook(lambda gradient: gradient * math.inf)
    with pytest.raises(TrainingFailed, match=r"^update 1: loss \d.*gradient norm (nan|inf)"):
        trainer.update(trainer.next_batches())


def test_a_frozen_embedding_is_never_touched(new_model, new_settings, new_batches, held_out):
    for optimizer in OPTIMIZERS:
        settings = new_settings(
            optimizer=optimizer, tokens=500, weight_decay=0.5, recompute="blocks"
        )
        model = new_model(settings, embedding="frozen")
        before = model.embedding.detach().clone()
        result = train(model, new_batches(), held_out, settings)
        assert torch.equal(model.embedding, before)
        assert result.last_held_out < result.curves.held_out[0][2]


def test_epochs_are_the_same_as_their_tokens(new_model, new_settings, new_batches, held_out):
    size, runs = new_batches().tokens_per_epoch, []
    for budget in ({"tokens": None, "epochs": 1.5}, {"tokens": round(1.5 * size), "epochs": None}):
        model = new_model()
        result = train(model, new_batches(), held_out, new_settings(**budget))
        runs.append((result.curves, model.state_dict()))
    assert runs[0][0] == runs[1][0]
    assert all(torch.equal(runs[0][1][name], tensor) for name, tensor in runs[1][1].items())
    assert 1.5 * size - 100 < runs[0][0].tokens[-1] <= 1.5 * size


def test_stop_after_ends_a_run_on_the_schedule_of_the_whole_budget(
    new_model, new_settings, new_batches, held_out
):
    whole = train(new_model(), new_batches(), held_out, new_settings(tokens=3000)).curves
    part = train(
        new_model(), new_batches(), held_out, new_settings(tokens=3000, stop_after=1000)
    ).curves
    count = len(part.updates)
    assert 1000 - 100 < part.tokens[-1] <= 1000
    assert (part.rate, part.train) == (whole.rate[:count], whole.train[:count])
    assert part.held_out[-1][0] == part.updates[-1]


def test_stop_after_above_the_budget_is_refused(new_model, new_settings, new_batches, held_out):
    batches = new_batches()
    size = batches.tokens_per_epoch
    settings = new_settings(tokens=None, epochs=1.0, stop_after=size + 1)
    with pytest.raises(
        InputError,
        match=rf"train\.stop_after = {size + 1}; allowed: at most .* {size} tokens, 1 epochs",
    ):
        train(new_model(), batches, held_out, settings)
    with pytest.raises(
        InputError, match=r"train\.stop_after = 3; allowed: at least \d+, one update"
    ):
        train(new_model(), batches, held_out, new_settings(stop_after=3))
    with pytest.raises(
        InputError, match=r"train\.epochs = 0.001: 2 tokens; allowed: at least \d+, one update"
    ):
        train(new_model(), batches, held_out, new_settings(tokens=None, epochs=0.001))


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"tokens": None}, "tokens"),
        ({"epochs": 2.5}, "tokens"),
        ({"stop_after": 6001}, "stop_after"),
        ({"keep_epochs": (1.0, 2.0, 1.0000001)}, "keep_epochs"),
    ],
)
def test_rules_between_the_settings(new_settings, changes, key):
    (problem,) = new_settings(**changes).problems()
    assert problem.startswith(key)


@pytest.mark.parametrize("accumulation", [1, 3])
def test_held_out_is_measured_at_the_end_of_each_epoch(
    new_model, new_settings, new_batches, held_out, accumulation
):
    batches = new_batches()
    size = batches.tokens_per_epoch
    settings = new_settings(
        tokens=round(2.2 * size), validate_every=10**9, accumulation=accumulation
    )
    curves = train(new_model(), batches, held_out, settings).curves
    ends = [
        next(u for u, t in zip(curves.updates, curves.tokens, strict=True) if t >= k * size)
        for k in (1, 2)
    ]
    assert [update for update, _, _ in curves.held_out] == [0, *ends, curves.updates[-1]]


def test_an_epochs_end_takes_no_patience(new_model, new_settings, new_batches, held_out):
    settings = {"tokens": None, "epochs": 4.0, "patience": 1, "lr": 1e-9}  # nothing gets better
    wrong = shuffled(held_out)
    result = train(
        new_model(), new_batches(), wrong, new_settings(validate_every=10**9, **settings)
    )
    assert not result.stopped_early
    assert len(result.curves.held_out) == 5
    size = len(new_batches())
    result = train(
        new_model(),
        new_batches(),
        wrong,
        new_settings(validate_every=size, **settings | {"lr": 1e-2}),
    )
    assert result.stopped_early
    assert result.best_held_out == min(loss for _, _, loss in result.curves.held_out)
