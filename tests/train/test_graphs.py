"""Updates with padded batches, numbers in the device's memory and late results: equal to plain ones."""

import pytest
import torch

from tinylm.train import loop
from tinylm.train.graphs import GraphedTrainer
from tinylm.train.trainer import Trainer

OPTIMIZERS = ["adam", "adamw", "muon"]


def two_trainers(new_model, new_batches, settings):
    """A trainer whose updates are plain, and one that trains from the same weights as on a card."""
    # a key's bias has no gradient: Adam would turn its rounding errors into steps
    plain = Trainer(new_model(settings, qkv_bias=False), new_batches(), settings)
    graphed = GraphedTrainer(new_model(settings, qkv_bias=False), new_batches(), settings)
    return plain, graphed


@pytest.mark.parametrize("accumulation", [1, 3])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_updates_as_on_a_card_are_those_of_the_reference(
    new_model, new_batches, new_settings, optimizer, accumulation
):
    settings = new_settings(optimizer=optimizer, accumulation=accumulation, clip_norm=0.5)
    plain, graphed = two_trainers(new_model, new_batches, settings)
    for _ in range(6):
        expected = plain.update(plain.next_batches())
        assert graphed.update(graphed.next_batches()) == pytest.approx(expected, rel=1e-5)
    assert (graphed.updates, graphed.tokens) == (plain.updates, plain.tokens)
    others = graphed.model.state_dict()
    for name, tensor in plain.model.state_dict().items():
        torch.testing.assert_close(others[name], tensor, rtol=1e-4, atol=1e-5)


def test_a_run_with_late_results_has_all_of_them(new_model, new_run, new_settings, monkeypatch):
    settings = new_settings(tokens=3000)
    plain = loop.train(new_run(settings, model=new_model(settings)))
    made = []
    monkeypatch.setattr(
        loop, "new_trainer", lambda *args: made.append(GraphedTrainer(*args[:3])) or made[0]
    )
    unread = []
    late = loop.train(
        new_run(settings, model=new_model(settings)),
        sample_every=3,
        on_sample=lambda _: unread.append(len(made[0]._in_flight)),
    )
    assert set(unread) == {0}  # before a sample, waiting for results counts as training time
    assert late.curves.tokens == plain.curves.tokens
    assert late.curves.train == pytest.approx(plain.curves.train, rel=1e-4)
    measured = late.curves.held_out[-1]
    assert measured[2] == pytest.approx(plain.curves.held_out[-1][2], rel=1e-4)
