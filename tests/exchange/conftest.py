from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support import small
from tinylm.base.config import load_params
from tinylm.base.files import sha256
from tinylm.decoding.settings import DecodeSettings
from tinylm.exchange.export import export_folder
from tinylm.model.checkpoint import save_model
from tinylm.model.transformer import TinyLM
from tinylm.params.presets.write import FOLDER
from tinylm.run.trained_model import TrainedModel
from tinylm.vocab.tokenizer import Tokenizer
from tinylm.vocab.words import WordTokenizer

DECODE = {"temperature": 0.8, "top_k": 50}
WORDS = "the cat sat on a mat and saw two big dogs run far from home as rain came down fast"


@pytest.fixture
def random_model() -> Callable[..., TinyLM]:
    """A small model, all of whose parameters are random; its dropout must not matter."""

    def make(vocab: int = 31, width: int = 19, **settings: Any) -> TinyLM:
        return small.random_model(vocab, width, **({"dropout": 0.1} | settings))

    return make


@pytest.fixture
def decode_settings() -> Callable[..., DecodeSettings]:
    return lambda **changes: DecodeSettings(**(DECODE | changes))


@pytest.fixture
def words() -> WordTokenizer:
    return small.words_of([WORDS])


@pytest.fixture
def speaking_model(random_model, words) -> Callable[..., TinyLM]:
    """Next-word distributions that are peaky, and that end some texts soon: <eos> scores `end` more."""

    def make(end: float = 3.0, **settings: Any) -> TinyLM:
        own_output = {"tied_output": False, "output_bias": True}
        model = random_model(vocab=len(words), context=29, **own_output, **settings)
        with torch.no_grad():
            model.final_norm.gain.mul_(2.0)
            model.output.bias[words.eos_id] += end
        return model

    return make


@pytest.fixture
def trained_of(tmp_path, words, decode_settings) -> Callable[..., TrainedModel]:
    """A model over `words` or another tokenizer as if it had just been trained."""

    def trained(
        model: TinyLM,
        tokenizer: Tokenizer | None = None,
        **decode: Any,
    ) -> TrainedModel:
        models, vocab = tmp_path / "models", tmp_path / "tokenizer.json"
        own = tokenizer or words
        own.save(vocab)
        save_model(models, model, tokenizer_sha256=sha256(vocab))
        params = load_params(FOLDER / "storybook.yaml")
        decoding = decode_settings(**decode)
        return TrainedModel(models, vocab, model, own, decoding, params)

    return trained


@pytest.fixture
def export_of(tmp_path, trained_of) -> Callable[..., Path]:
    """The folder of an export of a model."""

    def export(model: TinyLM, form: str = "transformers", **decode: Any) -> Path:
        export_folder(tmp_path / "export", trained_of(model, **decode), form)
        return tmp_path / "export"

    return export
