import dataclasses
import sys

import pytest
import torch

from tests.bench.conftest import results
from tinylm.base.command import CommandFailed
from tinylm.bench import ckpt, training
from tinylm.bench.operations import PARTS, shares
from tinylm.bench.training import TrainingMeasurement, TrainingTimes, new_training_run
from tinylm.bench.trials import in_own_process
from tinylm.model.checkpoint import load_model
from tinylm.train.trainer import Trainer


def test_recomputation_needs_less_memory(finished_run):
    plain, recomputed = results(finished_run, "ckpt_bench")[1]["settings"]
    assert recomputed["peak_mib"] < plain["peak_mib"]


def test_an_update_is_one_mini_batch_whatever_stage_train_accumulates(params):
    train = dataclasses.replace(params.train, accumulation=3)
    tasks = ckpt.make_tasks(params.ckpt_bench, params.model, train, 2, params.runtime)
    assert {(task.mini_batches, task.train.accumulation) for task in tasks} == {
        (params.ckpt_bench.updates, 1)
    }


def imported_by_a_timed_run(task):
    """What the training that is timed imports, in a process of its own."""
    imported = []
    train = training.train

    def watched(run, label):
        before = set(sys.modules)
        result = train(run, label=label)
        imported.extend(sorted(set(sys.modules) - before))
        return result

    training.train = watched
    training.measure_times(task)
    return imported


def test_no_time_of_an_update_is_that_of_an_import(params):
    """torch itself imports sympy in the first backward pass of a recomputed block."""
    for task in ckpt.make_tasks(params.ckpt_bench, params.model, params.train, 2, params.runtime):
        assert in_own_process(imported_by_a_timed_run, task) == [], task.name


@pytest.mark.parametrize("accumulation", [1, 3])
def test_the_profile_is_of_updates_as_stage_train_makes_them(params, accumulation, monkeypatch):
    train = dataclasses.replace(params.train, accumulation=accumulation, tokens=500)
    (task, _) = ckpt.make_tasks(params.ckpt_bench, params.model, train, 2, params.runtime)
    updates = []

    def update(trainer, batches):
        updates.append(([batch.tokens for batch in batches], trainer.settings))

    monkeypatch.setattr(Trainer, "update", update)
    monkeypatch.setattr(ckpt, "shares", lambda model, step: step() or {})
    ckpt.profile_update(dataclasses.replace(task, train=train))
    ((tokens, used),) = updates
    run = new_training_run(dataclasses.replace(task, train=train, mini_batches=accumulation))
    assert tokens == [run.batches.batch(number).tokens for number in range(accumulation)]
    for name in ("lr", "optimizer", "recompute", "batch_size", "accumulation", "clip_norm"):
        assert getattr(used, name) == getattr(train, name)


PLAIN = TrainingMeasurement(
    times=TrainingTimes(tokens_per_s=9.0, update_s=1.0, epoch_s=2.0),
    updates=2,
    curve=[(1, 9, 4.0), (2, 18, 3.5)],
    held_out=[],
    weights="a",
    texts=[],
    peak_mib=1.0,
)


@pytest.mark.parametrize(
    ("changed", "named"),
    [({"curve": [(1, 9, 4.0), (2, 18, 3.6)]}, "update 2"), ({"weights": "b"}, "weights")],
)
def test_another_loss_or_weight_fails(changed, named):
    with pytest.raises(CommandFailed, match=named):
        ckpt.check_same(PLAIN, dataclasses.replace(PLAIN, **changed))


def test_an_update_has_every_part_and_a_decoding_step_no_loss(finished_run):
    update = results(finished_run, "ckpt_bench")[1]["profile"]["shares"]
    step = results(finished_run, "kv_bench")[1]["profile"]["shares"]
    assert tuple(update) == tuple(step) == PARTS
    for found in (update, step):
        assert sum(found.values()) == pytest.approx(1, abs=1e-3)
    assert min(update.values()) > 0
    assert step["loss"] == step["optimizer"] == 0 < min(step["matrix products"], step["attention"])


@pytest.mark.parametrize("backward", [False, True])
def test_gradients_count_for_the_operation_that_they_are_of(backward, finished_run):
    """A large matrix product after the blocks outweighs them, forwards and backwards."""
    model, _ = load_model(finished_run / "models")
    x = torch.randn(1500, 1500, requires_grad=True)
    weight = torch.randn(1500, 1500, requires_grad=True)

    def step():
        model.hidden_states(torch.zeros(1, 4, dtype=torch.long)).sum()
        product = torch.nn.functional.linear(x, weight).relu().sum()
        if backward:
            product.backward()

    assert shares(model, step)["matrix products"] > 0.5
    assert not any("forward" in vars(module) for module in model.modules())
