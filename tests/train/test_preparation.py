"""What a run is made of, and what is reported of it, each computed a second time."""

import math

import pytest
import torch

from tests.support.small import model_settings
from tests.train.conftest import CONTEXT, PAD, VOCAB, WIDTH
from tinylm.train.curves import Curves, TrainResult, run_metrics
from tinylm.train.preparation import new_run


def test_splits_and_seed_decide_batches_and_weights(stores, new_settings):
    shape = model_settings(context=CONTEXT)
    matrix = torch.randn(VOCAB, WIDTH)
    runs = []
    for seed in (1, 1, 2):
        settings = new_settings(seed=seed)
        runs.append(new_run(shape, settings, matrix, stores, PAD, "cpu", threads=1))
    orders = []
    for run in runs:
        batches = [run.batches.batch(index) for index in range(len(run.batches))]
        orders.append([batch.inputs.tolist() for batch in batches])
        weights = run.model.blocks[0].attention.qkv.weight
        assert torch.equal(weights, runs[0].model.blocks[0].attention.qkv.weight) == (
            run is not runs[2]
        )
    assert orders[0] == orders[1] != orders[2]
    scored = {}
    for split, store in stores.items():
        scored[split] = sum(len(store.story(index)) - 1 for index in range(len(store)))
    assert runs[0].batches.tokens_per_epoch == scored["train"]
    assert sum(batch.tokens for batch in runs[0].held_out()) == scored["held_out"]


@pytest.mark.parametrize("kept_best", [True, False])
def test_the_reported_losses_are_those_of_the_last_updates_and_of_the_saved_weights(
    new_batches, kept_best
):
    losses = [float(update) for update in range(30, 0, -1)]
    curves = Curves(train=losses, tokens=[10 * update for update in range(1, 31)])
    curves.held_out = [(0, 0, 5.0), (10, 100, 1.5), (30, 300, 2.5)]
    metrics = run_metrics(TrainResult(curves, False, kept_best, 1.0), new_batches())
    assert metrics["train_loss"] == sum(losses[-20:]) / 20
    assert (metrics["held_out_loss_best"], metrics["best_update"]) == (1.5, 10)
    assert metrics["held_out_loss_last"] == 2.5
    assert metrics["held_out_perplexity"] == pytest.approx(math.exp(1.5 if kept_best else 2.5))
