"""Updates and decoding steps recorded as CUDA graphs: those of the CPU in float32, and the same bits twice."""

import dataclasses

import numpy as np
import pytest
import torch

from tests.support.small import DECODE, model_settings, random_model
from tinylm.base.seeding import seed_everything
from tinylm.decoding.beam_search import beam_search
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.sampling import generate
from tinylm.decoding.settings import BeamSettings, DecodeSettings
from tinylm.kernels.decoding.graphed import GraphedStep
from tinylm.params.presets.write import BASE, preset_values
from tinylm.train.graphs import GraphedTrainer, new_trainer
from tinylm.train.preparation import training_model
from tinylm.train.settings import TrainSettings
from tinylm.train.trainer import Trainer
from tinylm.vocab.batches import TrainBatches
from tinylm.vocab.token_store import TokenStore, write_store

VOCAB = 101


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    rng = np.random.default_rng(1)
    stories = [rng.integers(4, VOCAB, length) for length in rng.integers(5, 40, 300)]
    folder = tmp_path_factory.mktemp("tokens")
    write_store(folder, "train", stories, VOCAB)
    return TokenStore(folder, "train")


def settings(**changes) -> TrainSettings:
    values = {
        f.name: preset_values(BASE)[f"train.{f.name}"] for f in dataclasses.fields(TrainSettings)
    }
    fixed = {"precision": "fp32", "keep_epochs": (), "compile": "false"}
    return TrainSettings(**(values | fixed | changes))


def trainer(store, train: TrainSettings, device: torch.device, dropout: float = 0.0) -> Trainer:
    seed_everything(1, 1)
    matrix = torch.randn(VOCAB, 24, generator=torch.Generator().manual_seed(2))
    model = model_settings(dropout=dropout, qkv_bias=False)
    batches = TrainBatches(store, train.layout, train.batch_size, model.context, 2, 1)
    train = train.resolved(device)
    fresh = training_model(model, train, matrix, device)
    if device.type == "cpu" and dropout:
        return GraphedTrainer(fresh, batches, train)
    return new_trainer(fresh, batches, train)


@pytest.mark.parametrize("layout", ["stories", "stream"])
@pytest.mark.parametrize("optimizer", ["adam", "adamw", "muon"])
def test_recorded_updates_are_those_of_the_cpu(device, store, optimizer, layout):
    chosen = settings(optimizer=optimizer, layout=layout, accumulation=2, clip_norm=0.5, lr=1e-3)
    plain = trainer(store, chosen, torch.device("cpu"))
    compiled = "true" if device.type == "cuda" and layout == "stream" else "false"
    card = trainer(store, dataclasses.replace(chosen, compile=compiled), device)
    assert isinstance(card, GraphedTrainer) == (device.type == "cuda")
    for _ in range(12):
        expected = plain.update(plain.next_batches())
        assert card.update(card.next_batches()) == pytest.approx(expected, rel=2e-3)
    weights = card.model.state_dict()
    for name, tensor in plain.model.state_dict().items():
        torch.testing.assert_close(weights[name].cpu(), tensor, rtol=1e-2, atol=2e-3)


@pytest.mark.parametrize("layout", ["stories", "stream"])
def test_two_runs_have_the_same_bits_also_when_one_is_resumed(device, store, layout):
    chosen = settings(layout=layout, precision="bf16", compile="auto")
    first = trainer(store, chosen, device, dropout=0.1)
    for _ in range(6):
        first.launch(first.next_batches())
    state = {name: tensor.clone() for name, tensor in first.state_dict().items()}
    losses = [first.launch(first.next_batches()) for _ in range(6)]
    second = trainer(store, chosen, device, dropout=0.1)
    second.load_state_dict(state, 6, losses[0].all_tokens - losses[0].tokens)
    again = [second.launch(second.next_batches()) for _ in range(6)]
    assert [update.result() for update in again] == [update.result() for update in losses]
    weights = second.model.state_dict()
    for name, tensor in first.model.state_dict().items():
        assert torch.equal(weights[name], tensor), name


PROMPTS = [[5, 6, 7], [8, 9], [10, 11, 12, 13, 14]]


def new_model():
    torch.manual_seed(7)
    return random_model(101, 24, tied_output=False)


def texts(model, method, step=None):
    decoder = Decoder(model=model, eos_id=None, banned=[0], step=step)
    if isinstance(method, int):
        found = beam_search(decoder, PROMPTS, BeamSettings(width=method), max_new_tokens=30)
        return [best.ids for best, *_ in found]
    decode = DecodeSettings(**(DECODE | {"temperature": 0.0 if method == "greedy" else 0.8}))
    return [row.ids for row in generate(decoder, PROMPTS, decode, max_new_tokens=30)]


@pytest.mark.parametrize("method", ["greedy", "sample", 1, 5, 10])
def test_replayed_graphs_give_the_texts_of_the_cpu(device, method):
    model = new_model().to(device)
    step = GraphedStep(model)
    for _ in range(2):  # the second time, nothing is recorded
        assert texts(model, method, step) == texts(new_model(), method)
