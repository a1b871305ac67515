"""Perplexity and bits per byte of the whole evaluation split."""

from pathlib import Path
from typing import Any

from tinylm.model.lm import TinyLM
from tinylm.scoring.bits_per_byte import Spelling, bits_per_byte
from tinylm.scoring.continuations import EvaluateSettings
from tinylm.scoring.diversity import bootstrap_interval, pooled_perplexity
from tinylm.scoring.perplexity import perplexity
from tinylm.text.batches import scoring_batches
from tinylm.text.stories import read_stories
from tinylm.text.token_store import TokenStore
from tinylm.text.words import SPECIALS, Tokenizer
from tinylm.training.validation import row_losses

BATCH_ROWS = 32
PROTOCOL = {
    "stream": "the split as one stream in non-overlapping windows of {context} tokens; <sos> and <eos> are scored",
    "stories": "each story from its <sos>, in rows of at most {context} tokens; <eos> is scored, <sos> is given",
}


def score_split(
    model: TinyLM,
    tokenizer: Tokenizer,
    store: TokenStore,
    layout: str,
    stories: str | Path,
    settings: EvaluateSettings,
) -> dict[str, Any]:
    """Perplexity (95 % bootstrap interval over rows), nats a token, bits per byte and share of unknown words."""
    batches = scoring_batches(store, layout, BATCH_ROWS, model.settings.context, tokenizer.pad_id)
    rows = row_losses(model, batches).numpy()
    nats, tokens = float(rows[:, 0].sum()), int(rows[:, 1].sum())
    unknown: list[str] = []
    n_bytes = words = 0
    for story in read_stories(stories, "evaluation"):
        split = tokenizer.split(story["text"])
        unknown += [word for word in split if tokenizer.id_of(word) is None]
        n_bytes += len(" ".join(split).encode())
        words += len(split)
    spelling = Spelling(tokenizer.words[len(SPECIALS) :])
    interval = bootstrap_interval(rows, pooled_perplexity, settings.bootstrap, settings.seed)
    return {
        "perplexity": perplexity(nats, tokens),
        "perplexity_interval": list(interval),
        "nats_per_token": nats / tokens,
        "tokens": tokens,
        "bits_per_byte": bits_per_byte(nats, unknown, n_bytes, spelling) if n_bytes else None,
        "bytes": n_bytes,
        "unknown_share": len(unknown) / max(words, 1),
        "protocol": PROTOCOL[layout].format(context=model.settings.context),
    }
