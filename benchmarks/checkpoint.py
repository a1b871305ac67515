"""The model that all contenders decode with.

Its weights are random: a text of fixed length takes the same time with any weights. It is exported
once and kept.
"""

import itertools
from typing import Any

import numpy as np

from benchmarks.frame import Options, run_command
from benchmarks.shape import SPECIALS, of_size, untrained
from tinylm.base.files import sha256
from tinylm.model.checkpoint import save_model
from tinylm.text.words import Splitter
from tinylm.vocab.words import WordTokenizer

PROMPT = "once upon a time"
PROMPTS = 20
PROMPT_TOKENS = 5


def checkpoint(options: Options) -> dict[str, Any]:
    """{models, vocab, export: their paths; prompts, new_tokens}: the setup that all contenders share."""
    shape = of_size(options.tiny)
    folder = (options.work / f"decoding-{'tiny' if options.tiny else 'full'}").absolute()
    models, vocab, export = (folder / name for name in ("models", "tokenizer.json", "export"))
    if not export.exists():
        made_up = (f"word{number}" for number in itertools.count())
        words = itertools.chain(PROMPT.split(), made_up)
        tokens = itertools.islice(words, shape.vocab - SPECIALS)
        WordTokenizer(tokens, Splitter(lower_case=True, punctuation="drop")).save(vocab)
        save_model(models, untrained(shape), tokenizer_sha256=sha256(vocab))
        source = ["--models", str(models), "--vocab", str(vocab)]
        run_command("tinylm.cli", "export", str(export), *source)
    size = (PROMPTS, PROMPT_TOKENS)
    return {
        "models": str(models),
        "vocab": str(vocab),
        "export": str(export),
        "prompts": np.random.default_rng(1).integers(SPECIALS, shape.vocab, size).tolist(),
        "new_tokens": shape.context - PROMPT_TOKENS - 4,
    }
