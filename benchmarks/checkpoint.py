"""The model that all contenders decode with: trained for some minutes, exported, and kept."""

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.frame import run_command
from benchmarks.options import Options
from benchmarks.shape import PAD_ID, Shape, new_trainer, of_size, train_settings
from tinylm.base.files import sha256, write_json
from tinylm.model.checkpoint import save_model
from tinylm.storybook import corpus
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.token_store import write_store
from tinylm.vocab.words import WordTokenizer, build_tokenizer, count_words

STORIES = 4000
UPDATES = 300
PROMPTS = 20
PROMPT_TOKENS = 5
WORDS = VocabSettings(
    tokenizer="words",
    lower_case=True,
    punctuation="drop",
    min_count=1,
    max_size=None,
    path="",
    hub_id=None,
    hub_revision=None,
)


def padded_tokenizer(texts: Iterable[str], size: int) -> WordTokenizer:
    """The stories' words, followed by made-up ones until there are `size` ids; never more than that."""
    tokenizer = build_tokenizer(count_words(texts, WORDS), WORDS)
    specials = len(tokenizer.specials)
    made_up = (f"word{number:06d}" for number in itertools.count())
    words = itertools.chain(tokenizer.tokens[specials:], made_up)
    return WordTokenizer(list(itertools.islice(words, size - specials)), tokenizer.splitter)


def _train(
    folder: Path, shape: Shape, options: Options, tokenizer: WordTokenizer, texts: list[str]
) -> None:
    stories = (tokenizer.encode_story(text) for text in texts)
    write_store(folder / "tokens", "train", stories, shape.vocab)
    updates = 1 if options.tiny else UPDATES
    settings = train_settings(shape, tokens=updates * shape.step_tokens, precision="bf16")
    trainer = new_trainer(shape, settings, options.threads, folder=folder / "tokens")
    for _ in range(updates):
        nats, _, _ = trainer.update(trainer.next_batches())
    print(f"model to decode with: loss {nats:.3f} after {updates} updates", flush=True)
    vocab = folder / "vocab/tokenizer.json"
    tokenizer.save(vocab)
    save_model(folder / "models", trainer.model, tokenizer_sha256=sha256(vocab))


def checkpoint(options: Options) -> dict[str, Any]:
    """{models, vocab, export: their paths; prompts, new_tokens}: the setup that all contenders share.

    Read if it exists at the options' size; otherwise trained and exported first.
    """
    shape = of_size(options.tiny)
    folder = (options.work / f"decoding-{'tiny' if options.tiny else 'full'}").absolute()
    stories, held_out = corpus.generate(30 if options.tiny else STORIES, PROMPTS, 1)
    texts = [story.text for story in stories]
    tokenizer = padded_tokenizer(texts, shape.vocab)
    made = {
        "models": str(folder / "models"),
        "vocab": str(folder / "vocab/tokenizer.json"),
        "export": str(folder / "export"),
    }
    if not (folder / "ready.json").exists():
        _train(folder, shape, options, tokenizer, texts)
        source = ["--models", made["models"], "--vocab", made["vocab"]]
        run_command("tinylm.cli", "export", made["export"], *source)
        write_json(folder / "ready.json", {"vocab": shape.vocab})
    prompts = [tokenizer.encode_story(story.text)[:PROMPT_TOKENS] for story in held_out]
    assert not any(PAD_ID in prompt for prompt in prompts)
    new_tokens = shape.context - PROMPT_TOKENS - 4
    return made | {"prompts": prompts, "new_tokens": new_tokens}
