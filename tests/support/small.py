"""Small settings and models that tests of several rooms start from."""

from collections.abc import Iterable
from itertools import combinations, product
from typing import Any

import pytest
import torch

from tinylm.evaluate.settings import EvaluateSettings
from tinylm.kernels.library import compiler
from tinylm.model.ops import REFERENCE, Ops
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import RunBlocks, TinyLM, in_order
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.words import WordTokenizer, build_tokenizer, count_words

needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C++ compiler")

MODEL: dict[str, Any] = {
    "layers": 2, "heads": 3, "head_width": 6, "feed_forward": 23, "context": 17, "dropout": 0.0, "norm": "pre",
    "norm_kind": "layer", "norm_eps": 1e-5, "final_norm": True, "positions": "sinusoids", "activation": "gelu",
    "init": "scaled", "qkv_bias": True, "attention_bias": True, "tied_output": True,
    "output_bias": False, "embedding": "tuned"
}  # fmt: skip
DECODE: dict[str, Any] = {
    "temperature": 0.8, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "eta": 0.0, "fallback_mass": 0.0, "repetition_penalty": 1.0,
    "repetition_window": None, "seed": 1
}  # fmt: skip
EVALUATE = EvaluateSettings(
    stories=3, prompts="starts", prompt_tokens=2, new_tokens=9, reference="cut"
)


def model_settings(**changes: Any) -> ModelSettings:
    """MODEL with some settings changed."""
    return ModelSettings(**(MODEL | changes))


def words_of(texts: Iterable[str], **settings: Any) -> WordTokenizer:
    """A tokenizer with the words of these texts."""
    chosen = VocabSettings(tokenizer="words", **settings)
    return build_tokenizer(count_words(texts, chosen), chosen)


def random_model(
    vocab: int, width: int, ops: Ops = REFERENCE, run_blocks: RunBlocks = in_order, **settings: Any
) -> TinyLM:
    """A small model in evaluation mode; all parameters random, so that a forgotten gain or bias shows."""
    generator = torch.Generator().manual_seed(7)
    model = TinyLM(
        model_settings(**settings), torch.randn(vocab, width, generator=generator), ops, run_blocks
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                start = 1.0 if name.endswith("gain") else 0.0
                parameter.copy_(start + 0.3 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def pairs(*parameters: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Rows of one value of each parameter, in which every two values of two parameters meet at least once.

    Chosen greedily from the product, always the same: each row is the first of those with most new pairs.
    """
    values = [list(parameter) for parameter in parameters]
    met = {
        row: set(combinations(enumerate(row), 2))
        for row in product(*(range(len(parameter)) for parameter in values))
    }
    left, chosen = set().union(*met.values()), []
    while left:
        row = max(met, key=lambda row: len(met[row] & left))
        left -= met[row]
        chosen.append(tuple(parameter[index] for parameter, index in zip(values, row, strict=True)))
    return chosen
