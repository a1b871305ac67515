from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tinylm.config import parse_yaml, read_section
from tinylm.decoding.settings import DecodeSettings
from tinylm.exchange.export import Trained, export_folder
from tinylm.files import sha256
from tinylm.model.attention import SelfAttention, head_widths
from tinylm.model.lm import ModelSettings, TinyLM
from tinylm.model.storage import save_model
from tinylm.presets.write import BASE, preset_text
from tinylm.text.tokens.tokenizer import Tokenizer
from tinylm.text.tokens.vocab_settings import VocabSettings
from tinylm.text.tokens.words import WordTokenizer, build_tokenizer, count_words

WORDS = "the cat sat on a mat and saw two big dogs run far from home as rain came down fast"

SMALL = {
    "layers": 2,
    "heads": 3,
    "head_width": None,
    "feed_forward": 23,
    "context": 17,
    "dropout": 0.1,
    "norm": "pre",
    "norm_kind": "layer",
    "norm_eps": 1e-5,
    "final_norm": True,
    "positions": "sinusoids",
    "activation": "gelu",
    "init": "scaled",
    "qkv_bias": True,
    "attention_bias": True,
    "feed_forward_bias": True,
    "tied_output": True,
    "output_bias": False,
    "embedding": "tuned",
}


@pytest.fixture
def random_model() -> Callable[..., TinyLM]:
    """A small model in evaluation mode; all parameters random, so that a forgotten gain or bias shows."""

    def make(vocab: int = 31, width: int = 19, **settings: Any) -> TinyLM:
        generator = torch.Generator().manual_seed(7)
        model = TinyLM(ModelSettings(**(SMALL | settings)), torch.randn(vocab, width, generator=generator))
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if parameter.dim() == 1:
                    start = 1.0 if name.endswith("gain") else 0.0
                    parameter.copy_(start + 0.3 * torch.randn(parameter.shape, generator=generator))
        return model.eval()

    return make


@pytest.fixture
def in_float64() -> Callable[[TinyLM], TinyLM]:
    """The model in float64, with the heads' scales as exact as that allows; they are kept in float32."""

    def change(model: TinyLM) -> TinyLM:
        model.double()
        for part in model.modules():
            if isinstance(part, SelfAttention):
                widths = torch.tensor(head_widths(part.inner, part.heads), dtype=torch.float64)
                part.scale = widths.rsqrt()[:, None, None]
        return model

    return change


@pytest.fixture
def decode_settings() -> Callable[..., DecodeSettings]:
    """Section decode of the complete preset, with changes."""

    def make(**changes: Any) -> DecodeSettings:
        values = parse_yaml(preset_text(BASE), BASE)["decode"]
        return read_section({"decode": values | changes}, "decode", DecodeSettings)

    return make


@pytest.fixture
def words() -> WordTokenizer:
    settings = VocabSettings("words", True, "drop", 1, None, "", None, None)
    return build_tokenizer(count_words([WORDS], settings), settings)


@pytest.fixture
def speaking_model(random_model, words) -> Callable[..., TinyLM]:
    """Next-word distributions that are peaky, and that end some texts soon: <eos> scores `end` more."""

    def make(end: float = 2.0, **settings: Any) -> TinyLM:
        torch.manual_seed(7)
        model = random_model(vocab=len(words), context=29, tied_output=False, output_bias=True, **settings)
        gain = model.final_norm.gain if settings.get("final_norm", True) else model.blocks[-1].norm2.gain
        with torch.no_grad():
            gain.mul_(2.0)
            model.output.bias[words.eos_id] += end
        return model

    return make


@pytest.fixture
def export_of(tmp_path, words, decode_settings) -> Callable[..., Path]:
    """The folder of an export of a model over `words` or another tokenizer."""

    def export(model: TinyLM, form: str = "transformers", tokenizer: Tokenizer | None = None, **decode: Any) -> Path:
        models, vocab = tmp_path / "models", tmp_path / "tokenizer.json"
        own = tokenizer or words
        own.save(vocab)
        save_model(models, model, tokenizer_sha256=sha256(vocab))
        trained = Trained(models, vocab, model, own, decode_settings(**decode))
        export_folder(tmp_path / "export", trained, form)
        return tmp_path / "export"

    return export
