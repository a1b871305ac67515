"""Section `decode` as the generation defaults of the library `transformers`.

| ours                                        | `generate()` there                   |
| temperature 0                               | do_sample false                      |
| temperature, top_k, top_p, min_p            | the same names; top_k comes later    |
| eta                                         | eta_cutoff                           |
| repetition_penalty                          | the same name; it also counts <eos>  |
| <sos>, <pad> and <unk> are never generated  | suppress_tokens                      |
| score = log_prob / length ** length_penalty | length_penalty, sequences_scores     |
| a search goes on until no beam can win      | early_stopping="never"               |
| a window that moves past the context        | max_length, the context              |

The file has neither length_penalty nor early_stopping, which belong in the call of `generate()`:
versions before 5 refuse to save a model whose file has them, and optimum then drops the whole file.

By default, their beam search draws tokens if do_sample is true, and applies the repetition penalty;
tinylm's does neither, so the call turns both off. A width of 1 is greedy there; in tinylm only if
length_penalty is 0, otherwise a longer text may score better.
"""

import dataclasses
from typing import Any

from tinylm.decoding.filters import MIN_TEMPERATURE
from tinylm.decoding.settings import DecodeSettings
from tinylm.decoding.texts import banned_ids
from tinylm.exchange.tokenizer_files import special_roles
from tinylm.vocab.tokenizer import Tokenizer

GENERATION_CONFIG = "generation_config.json"
TRANSLATED = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "eta",
    "repetition_penalty",
    "seed",
)  # keys of `decode`


def generation_config(tokenizer: Tokenizer, decode: DecodeSettings, context: int) -> dict[str, Any]:
    """Content of generation_config.json; `untranslated` names what it cannot express.

    A role that no special token plays is left out: `generate` treats all ids equal to pad_token_id
    as padding.
    """
    config: dict[str, Any] = {}
    for role, index in special_roles(tokenizer).items():
        config[f"{role}_token_id"] = index
    if banned := banned_ids(tokenizer):
        config["suppress_tokens"] = banned
    config["max_length"] = context
    config["do_sample"] = decode.temperature > 0.0
    if decode.temperature > 0.0:
        # At much lower temperatures, the scores overflow in transformers. tinylm has the same minimum.
        config["temperature"] = max(decode.temperature, MIN_TEMPERATURE)
        config["top_k"] = decode.top_k
        config["top_p"] = decode.top_p
        if decode.min_p > 0.0:
            config["min_p"] = decode.min_p
        if decode.eta > 0.0:
            config["eta_cutoff"] = decode.eta
    config["repetition_penalty"] = decode.repetition_penalty
    return config


def beam_search_call(length_penalty: float) -> str:
    """The call of `generate()` that searches as tinylm does, whatever the defaults of the file are."""
    ours = f'length_penalty={length_penalty}, early_stopping="never"'
    return f"generate(num_beams=5, {ours}, do_sample=False, repetition_penalty=1.0)"


def untranslated(decode: DecodeSettings) -> list[str]:
    """The settings other than their defaults that `generate()` of `transformers` lacks."""
    lines = []
    for field in dataclasses.fields(decode):
        value = getattr(decode, field.name)
        if field.name not in TRANSLATED and value != field.default:
            lines.append(f"decode.{field.name} = {value}")
    return lines
