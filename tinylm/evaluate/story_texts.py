"""The evaluation split story by story: its text, and the model's loss on it."""

import dataclasses
import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tinylm.base.config import InputError
from tinylm.download.stories import read_stories
from tinylm.evaluate.bits_per_byte import Spelling
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import Tokenizer

_ID_DIGITS = 16


@dataclasses.dataclass(frozen=True)
class StoryTexts:
    """For each story: a name for its text, UTF-8 bytes of the normalised text (S,), its unknown words, and the raw text
    (None if the split has no stories of its own)."""

    ids: Sequence[str]
    n_bytes: np.ndarray
    unknown: Sequence[Sequence[str]]
    raw: Sequence[str] | None


def story_texts(tokenizer: Tokenizer, store: TokenStore, stories: str | Path) -> StoryTexts:
    """The texts of a token store of the evaluation split.

    If the split has no stories of its own, since it is a part of the training stream, its ids are decoded; unknown
    words are then lost. Raises InputError if the stories are not those of the store.
    """
    texts = [row["text"] for row in read_stories(stories, "evaluation")]
    own = bool(texts)
    if not own:
        texts = [tokenizer.decode(store.story(index).tolist()) for index in range(len(store))]
    if len(texts) != len(store):
        raise InputError(
            f"{stories}: {len(texts)} evaluation stories, {len(store)} of them in tokens; run dvc repro"
        )
    return StoryTexts(
        [_digest([text]) for text in texts],
        np.array([len(tokenizer.normalise(text).encode()) for text in texts], dtype=np.int64),
        [tokenizer.unknown_words(text) if own else [] for text in texts],
        texts if own else None,
    )


def story_rows(
    tokenizer: Tokenizer,
    store: TokenStore,
    texts: StoryTexts,
    losses: tuple[np.ndarray, np.ndarray],
    nats_once: np.ndarray,
    spelling: Spelling | None,
    dropped: np.ndarray | None,
) -> list[dict[str, Any]]:
    """One row per story: its number from 0, text_id, tokens_id, nats, tokens, bits, bytes, raw_bits, raw_bytes.

    nats and tokens (S,) are sums over its scored tokens by the protocol of the perplexity, so that they add up to the
    split's; bits are the cost of its bytes, each token scored once, unknown words spelt: NaN without a
    `spelling`. raw_bits are the cost of the raw text, with that of what the tokenizer drops, `dropped` (S,) in nats:
    NaN if it has no price. Equal text_id: the same text; equal tokens_id: the same tokens of the same vocabulary.
    """
    nats, tokens = losses
    vocabulary = _digest(sorted(tokenizer.tokens))
    rows = []
    for index, text_id in enumerate(texts.ids):
        spelt = sum(map(spelling.nats, texts.unknown[index])) if spelling else math.nan
        nats_of_bytes = float(nats_once[index]) + spelt
        pieces = [tokenizer.tokens[token] for token in store.story(index).tolist()]
        rows.append(
            {
                "story": index,
                "text_id": text_id,
                "tokens_id": _digest([vocabulary, *pieces]),
                "nats": float(nats[index]),
                "tokens": int(tokens[index]),
                "bits": nats_of_bytes / math.log(2),
                "bytes": int(texts.n_bytes[index]),
                "raw_bits": (
                    nats_of_bytes + (math.nan if dropped is None else float(dropped[index]))
                )
                / math.log(2),
                "raw_bytes": 0 if texts.raw is None else len(texts.raw[index].encode()),
            }
        )
    return rows


def _digest(parts: Sequence[str]) -> str:
    """A name for a sequence of texts, equal for equal ones."""
    joined = b"".join(
        len(part).to_bytes(8, "little") + part.encode(errors="surrogatepass") for part in parts
    )
    return hashlib.sha256(joined).hexdigest()[:_ID_DIGITS]
