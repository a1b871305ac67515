"""Text in, text out."""

import warnings
from collections.abc import Sequence
from typing import Any, Protocol

from tinylm.decoding.sampling import generate
from tinylm.decoding.session import window_start
from tinylm.decoding.settings import DecodeSettings
from tinylm.model.lm import TinyLM


class Tokenizer(Protocol):
    """What decoding asks of a tokenizer."""

    sos_id: int
    eos_id: int
    pad_id: int
    unk_id: int

    def encode(self, text: str) -> list[int]: ...

    def decode(self, ids: Sequence[int]) -> str: ...


def unspeakable(tokenizer: Tokenizer) -> list[int]:
    """Ids never generated in text for people: <sos> and <pad>, which begin and fill rows, and <unk>."""
    return [tokenizer.sos_id, tokenizer.pad_id, tokenizer.unk_id]


def encode_prompts(tokenizer: Tokenizer, prompts: Sequence[str], context: int, slide: str) -> list[list[int]]:
    """<sos> and the prompt's tokens; an empty prompt is <sos> alone.

    Warns where a prompt has no known word, or does not fit the context and is only seen from some token on.
    """
    encoded = []
    for number, text in enumerate(prompts, start=1):
        ids = [tokenizer.sos_id, *tokenizer.encode(text)]
        if len(ids) > 1 and all(token == tokenizer.unk_id for token in ids[1:]):
            warnings.warn(f"prompt {number}: no word of it is known; the model sees <unk>", stacklevel=2)
        if start := window_start(len(ids), context, slide):
            warnings.warn(
                f"prompt {number}: {len(ids)} tokens, the context holds {context}; "
                f"the model sees the last {len(ids) - start} at first",
                stacklevel=2,
            )
        encoded.append(ids)
    return encoded


def generate_text(
    model: TinyLM,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    settings: DecodeSettings,
    max_new_tokens: int,
    **options: Any,
) -> list[str]:
    """Each prompt with its continuation, as one text without special tokens; `options` go to `generate`."""
    ids = encode_prompts(tokenizer, prompts, model.settings.context, settings.slide)
    options.setdefault("banned", unspeakable(tokenizer))
    found = generate(model, ids, settings, max_new_tokens, tokenizer.eos_id, **options)
    texts = []
    for prompt, new in zip(ids, found, strict=True):
        ended = new.finished
        texts.append(tokenizer.decode([*prompt[1:], *(new.ids[:-1] if ended else new.ids)]))
    return texts
