"""Every candidate of the recipe trains, at tiny size; what it changes is really another computation."""

from dataclasses import replace

import pytest

from tinylm.benchmarks import tried
from tinylm.benchmarks.candidates import CANDIDATES
from tinylm.training import trainer

SMALL = 2560  # tokens: ten updates of 16 windows of 16


@pytest.fixture(autouse=True)
def undone(monkeypatch):
    """What a candidate changes of a module is put back."""
    monkeypatch.setattr(trainer, "learning_rate", trainer.learning_rate)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return tmp_path_factory.mktemp("tried")


def loss_of(name, options, shared):
    return tried.trained(name, SMALL, 1, 1.0, replace(options, work=shared), "storybook")


@pytest.mark.parametrize("name", [name for name in CANDIDATES if name != "the recipe"])
def test_a_candidate_trains_and_differs_from_the_recipe(name, options, shared):
    plain, found = (loss_of(which, options, shared) for which in ("the recipe", name))
    assert 0 < found < 10
    assert found != plain
