"""The shape at which all contenders are measured, and our settings, data and models at that shape."""

import dataclasses
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from tinylm.base.config import parse_yaml, read_section
from tinylm.base.seeding import derive_seed, seed_everything
from tinylm.model.checkpoint import new_model
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import TinyLM
from tinylm.params.presets.write import BASE, preset_text
from tinylm.train import graphs
from tinylm.train.preparation import prepare_process, training_model
from tinylm.train.settings import TrainSettings
from tinylm.train.trainer import Trainer
from tinylm.vocab.batches import TrainBatches
from tinylm.vocab.token_store import TokenStore, write_store

SPECIALS = 4
PAD_ID = 2
STORE_STEPS = 64  # updates that the random ids are enough for
# nanoGPT's architecture: learned positions, one matrix for input and output, all of it trained; no biases but in feed-forward.
AS_NANOGPT = {
    "head_width": None,
    "norm": "pre",
    "norm_kind": "layer",
    "final_norm": True,
    "positions": "learned",
    "activation": "gelu",
    "init": "scaled",
    "qkv_bias": False,
    "attention_bias": False,
    "tied_output": True,
    "output_bias": False,
    "embedding": "tuned",
}
ADAMW = {"optimizer": "adamw", "precision": "auto"}  # of section train


@dataclasses.dataclass(frozen=True)
class Shape:
    """The preset word-50k's numbers by default; `batch` rows of `context` tokens per step."""

    layers: int = 4
    heads: int = 6
    width: int = 300
    feed_forward: int = 1200
    context: int = 64
    vocab: int = 14_886
    batch: int = 32
    dropout: float = 0.1

    @property
    def step_tokens(self) -> int:
        return self.batch * self.context


WORD_50K = Shape()
STORYBOOK = Shape(  # the default run
    layers=4, heads=4, width=128, feed_forward=512, context=192, vocab=3_010, batch=8, dropout=0.0
)
TINY = Shape(layers=1, heads=2, width=16, feed_forward=32, context=16, vocab=97, batch=2)


def of_size(tiny: bool, shape: Shape = WORD_50K) -> Shape:
    """The shape, or one at which a line only shows that it runs."""
    return TINY if tiny else shape


def section(name: str, cls: type, changes: Mapping[str, Any], preset: str = BASE) -> Any:
    """A section of a preset, by default of the complete one, with some changed values."""
    params = parse_yaml(preset_text(preset), preset)
    return read_section({name: params[name] | dict(changes)}, name, cls, f"{preset}.yaml")


def model_settings(
    shape: Shape, form: Mapping[str, Any] = AS_NANOGPT, preset: str = BASE
) -> ModelSettings:
    """Section `model` of a preset at the shape, with the form's values."""
    sizes = ("layers", "heads", "feed_forward", "context", "dropout")
    changes = {name: getattr(shape, name) for name in sizes}
    return section("model", ModelSettings, changes | dict(form), preset)


def train_settings(shape: Shape, preset: str = BASE, **changes: Any) -> TrainSettings:
    """Section `train` of a preset: packed windows of the shape, an endless budget; `changes` come last."""
    packed = {
        "layout": "stream",
        "batch_size": shape.batch,
        "accumulation": 1,
        "tokens": 10**12,
        "epochs": None,
    }
    return section("train", TrainSettings, packed | changes, preset)


def random_vectors(shape: Shape) -> torch.Tensor:
    """(V, D) float32"""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(shape.vocab, shape.width, generator=generator) * 0.02


def untrained(shape: Shape) -> TinyLM:
    """A model with fresh weights over random vectors."""
    return new_model(model_settings(shape), random_vectors(shape))


def stream(shape: Shape, tokens: int) -> np.ndarray:
    """Ids distributed like words: the k-th occurs 1 / k as often as the first (Zipf).  -> (tokens,) int64"""
    rng = np.random.default_rng(derive_seed(1, "stream"))
    weights = 1.0 / np.arange(1, shape.vocab - SPECIALS + 1)
    return SPECIALS + rng.choice(len(weights), size=tokens, p=weights / weights.sum())


def _random_store(shape: Shape, split: str = "train") -> TokenStore:
    """A store of random ids. Its folder is removed at once: the memory map keeps the file."""
    stories = np.array_split(stream(shape, STORE_STEPS * shape.step_tokens), STORE_STEPS)
    with tempfile.TemporaryDirectory() as folder:
        write_store(folder, split, stories, shape.vocab)
        return TokenStore(folder, split)


def new_trainer(
    shape: Shape,
    settings: TrainSettings,
    threads: int,
    *,
    model: ModelSettings | None = None,
    device: Any = "cpu",
) -> Trainer:
    """The Trainer of stage train over random vectors and ids. model: by default nanoGPT's architecture."""
    store = _random_store(shape)
    seed_everything(1, threads)
    batches = TrainBatches(store, "stream", shape.batch, shape.context, PAD_ID, 1)
    form = model or model_settings(shape)
    settings = settings.resolved(torch.device(device))
    prepare_process(settings.precision, torch.device(device))
    fresh = training_model(form, settings, random_vectors(shape), torch.device(device))
    return graphs.new_trainer(fresh, batches, settings)
