"""The model in one file equals the package: its first updates, and its greedy text."""

from pathlib import Path

import pytest
import torch

from tinylm.base.config import load_params, read_section
from tinylm.base.seeding import derive_seed, seed_everything
from tinylm.decoding.settings import DecodeSettings
from tinylm.decoding.texts import generate_text
from tinylm.learn.worker import load
from tinylm.model.checkpoint import new_model
from tinylm.model.settings import ModelSettings
from tinylm.train.settings import TrainSettings
from tinylm.train.trainer import Trainer
from tinylm.vocab.batches import TrainBatches
from tinylm.vocab.kinds import open_tokenizer
from tinylm.vocab.token_store import TokenStore, load_matrix

ROOT = Path(__file__).parents[2]
UPDATES = 20
BATCH = 2  # so that the few stories of the tests suffice


@pytest.fixture
def data(finished_run):
    return finished_run / "data"


def test_updates_and_greedy_text_equal_the_package(data):
    one = load(ROOT / "docs/tutorial/one_file.py", "one_file")
    params = load_params(ROOT / "params.yaml")
    one.BATCH = BATCH
    params["train"] |= {"precision": "fp32", "batch_size": BATCH}
    settings = read_section(params, "train", TrainSettings)
    tokenizer = open_tokenizer(data / "vocab/tokenizer.json")
    seed_everything(derive_seed(settings.seed, "train"), 1)
    embedding = torch.from_numpy(load_matrix(data / "vocab/embedding.safetensors"))
    model = new_model(read_section(params, "model", ModelSettings), embedding)
    shape = (settings.layout, settings.batch_size, one.CONTEXT, tokenizer.pad_id)
    store = TokenStore(data / "tokens", "train")
    batches = TrainBatches(store, *shape, derive_seed(settings.seed, "order"))
    trainer = Trainer(model, batches, settings)

    vocabulary = one.read_vocabulary(data)
    rows = one.make_rows(one.read_stories(data, "train"))
    order = one.order_of_batches(rows)
    plain = one.Trainer(one.new_model(data))
    assert vocabulary == tokenizer.tokens
    for update in range(UPDATES):
        (batch,) = trainer.next_batches()
        inputs, targets = one.make_batch([rows[row] for row in order[update]])
        assert torch.equal(inputs, batch.inputs)
        assert torch.equal(targets, batch.targets)
        assert plain.update(inputs, targets) == pytest.approx(trainer.update([batch])[0], rel=1e-6)
    prompt = " ".join(vocabulary[4:6])
    (text,) = generate_text(
        model.eval(), tokenizer, [prompt], DecodeSettings().greedy(), max_new_tokens=40
    )
    assert one.greedy(plain.model, vocabulary, prompt, 40) == text
