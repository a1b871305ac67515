"""Text in, text out."""

from collections.abc import Sequence

from tinylm.base.printable import warn_caller
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.sampling import generate
from tinylm.decoding.session import window_start
from tinylm.decoding.settings import DecodeSettings
from tinylm.vocab.tokenizer import Tokenizer


def banned_ids(tokenizer: Tokenizer) -> list[int]:
    """Special ids that are never generated: <sos> and <pad>, which only begin and fill rows, and <unk>.

    An id that also ends a text may be generated, and so may one that is also text.
    """
    return sorted(tokenizer.specials - {tokenizer.eos_id})


def encode_prompts(
    tokenizer: Tokenizer, prompts: Sequence[str], context: int, slide: str
) -> list[list[int]]:
    """Each prompt's ids. Warns if a prompt does not fit the context."""
    encoded = []
    for number, text in enumerate(prompts, start=1):
        ids = tokenizer.encode_prompt(text, f"prompt {number}")
        if start := window_start(len(ids), context, slide):
            warn_caller(
                f"prompt {number} has {len(ids)} tokens, but the context holds {context}; "
                f"the model sees only the last {len(ids) - start} at first"
            )
        encoded.append(ids)
    return encoded


def generate_text(
    decoder: Decoder,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    settings: DecodeSettings,
    *,
    max_new_tokens: int,
    stop_at_eos: bool = True,
) -> list[str]:
    """Each prompt with its continuation, as one text without special tokens."""
    ids = encode_prompts(tokenizer, prompts, decoder.model.settings.context, decoder.slide)
    continuations = generate(
        decoder, ids, settings, max_new_tokens=max_new_tokens, stop_at_eos=stop_at_eos
    )
    texts = []
    for prompt, continuation in zip(ids, continuations, strict=True):
        texts.append(tokenizer.decode([*prompt, *continuation.ids]))
    return texts
