"""Perplexity and bits per byte of the whole evaluation split."""

from pathlib import Path
from typing import Any

import numpy as np

from tinylm.model.lm import TinyLM
from tinylm.scoring.bits_per_byte import Spelling, bits_per_byte
from tinylm.scoring.continuations import EvaluateSettings
from tinylm.scoring.diversity import bootstrap_interval, pooled_perplexity
from tinylm.scoring.perplexity import perplexity
from tinylm.text.batches import scoring_batches
from tinylm.text.stories import read_stories
from tinylm.text.token_store import TokenStore, coverage
from tinylm.text.tokens.tokenizer import Tokenizer
from tinylm.training.validation import row_losses

BATCH_ROWS = 32
PROTOCOL = {
    "stream": "the split as one stream in non-overlapping windows of {context} tokens; <sos> and <eos> are scored",
    "stories": "each story from its <sos>, in rows of at most {context} tokens; <eos> is scored, <sos> is given",
    "windows": "every window of {context} tokens at stride 1, each of its tokens scored (bits per byte, and the "
    "perplexity held against the baselines: windows that do not overlap); the interval draws blocks of {context} "
    "windows",
}


def score_split(
    model: TinyLM,
    tokenizer: Tokenizer,
    store: TokenStore,
    layout: str,
    stories: str | Path,
    settings: EvaluateSettings,
) -> dict[str, Any]:
    """Perplexity (95 % bootstrap interval over rows), nats a token, bits per byte and share of unknown words.

    Layout "windows" scores a token in each window that holds it; "once" then has the figures of layout "stream",
    which scores just the targets of the baselines, each once. The other layouts do so anyway and have no "once".
    Bits per byte is None where the text has no bytes, or unknown words that nobody can name any more.
    """
    context = model.settings.context

    def losses(layout: str) -> np.ndarray:
        return row_losses(model, scoring_batches(store, layout, BATCH_ROWS, context, tokenizer.pad_id)).numpy()

    rows = once = losses(layout)
    if layout == "windows":  # neighbours score the same tokens
        once = losses("stream")
        rows = np.add.reduceat(rows, np.arange(0, len(rows), context))
    known = coverage(store, tokenizer.unk_id, tokenizer.specials - {tokenizer.unk_id})
    n_bytes, unknown = _modelled_text(tokenizer, store, stories)
    spelling = Spelling(filter(None, map(tokenizer.word_of, range(len(tokenizer)))) if unknown else ())
    priced = n_bytes > 0 and len(unknown) == known["unknown"]
    return {
        **_figures(rows, settings),
        "bits_per_byte": bits_per_byte(float(once[:, 0].sum()), unknown, n_bytes, spelling) if priced else None,
        "bytes": n_bytes,
        "unknown_share": known["unknown_share"],
        "protocol": PROTOCOL[layout].format(context=context),
        **({"once": _figures(once, settings)} if layout == "windows" else {}),
    }


def _figures(rows: np.ndarray, settings: EvaluateSettings) -> dict[str, Any]:
    """Perplexity, its interval, nats a token and tokens of rows of (nats, tokens): rows (R, 2)."""
    nats, tokens = float(rows[:, 0].sum()), int(rows[:, 1].sum())
    return {
        "perplexity": perplexity(nats, tokens),
        "perplexity_interval": list(bootstrap_interval(rows, pooled_perplexity, settings.bootstrap, settings.seed)),
        "nats_per_token": nats / tokens,
        "tokens": tokens,
    }


def _modelled_text(tokenizer: Tokenizer, store: TokenStore, stories: str | Path) -> tuple[int, list[str]]:
    """UTF-8 bytes of the split's normalised text and its unknown words.

    Where the split has no stories of its own, since it is a part of the training stream, its ids are read back; what
    an unknown word was is then lost.
    """
    n_bytes = 0
    unknown: list[str] = []
    for story in read_stories(stories, "evaluation"):
        n_bytes += len(tokenizer.normalise(story["text"]).encode())
        unknown += tokenizer.unknown_words(story["text"])
    if not n_bytes:
        texts = (tokenizer.decode(store.story(index).tolist()) for index in range(len(store)))
        n_bytes = sum(len(tokenizer.normalise(text).encode()) for text in texts)
    return n_bytes, unknown
