"""The model that all contenders decode with: trained for some minutes, exported and kept."""

import dataclasses
import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.options import Options
from benchmarks.shape import PAD_ID, Shape, new_trainer, of_size, train_settings
from benchmarks.watched import run_command
from tinylm.base.files import sha256, write_json
from tinylm.model.checkpoint import save_model
from tinylm.storybook import corpus
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.token_store import write_store
from tinylm.vocab.words import WordTokenizer, build_tokenizer, count_words

STORIES = {"full": 4000, "tiny": 30}
UPDATES = {"full": 300, "tiny": 1}
PROMPTS, PROMPT_TOKENS = 20, 5
WORDS = VocabSettings(
    tokenizer="words", lower_case=True, punctuation="drop", min_count=1, max_size=None, path="", hub_id=None,
    hub_revision=None,
)  # fmt: skip


def padded_tokenizer(texts: Iterable[str], size: int) -> WordTokenizer:
    """The stories' words, followed by made-up ones until there are `size` ids; never more than that."""
    known = build_tokenizer(count_words(texts, WORDS), WORDS)
    fill = (f"word{number:06d}" for number in itertools.count())
    words = itertools.chain(known.tokens[len(known.specials) :], fill)
    return WordTokenizer(list(itertools.islice(words, size - len(known.specials))), known.split)


def _train(
    folder: Path, shape: Shape, options: Options, tokenizer: WordTokenizer, texts: list[str]
) -> None:
    write_store(
        folder / "tokens", "train", (tokenizer.encode_story(text) for text in texts), shape.vocab
    )
    updates = UPDATES[options.size]
    settings = train_settings(shape, tokens=updates * shape.step_tokens, precision="bf16")
    trainer = new_trainer(shape, settings, options.threads, folder=folder / "tokens")
    for number in range(updates):
        nats, _, _ = trainer.update(trainer.next_batches())
        if number % 50 == 0 or number + 1 == updates:
            print(
                f"model to decode with: update {number + 1} of {updates}, loss {nats:.3f}",
                flush=True,
            )
    tokenizer.save(folder / "vocab/tokenizer.json")
    save_model(
        folder / "models", trainer.model, tokenizer_sha256=sha256(folder / "vocab/tokenizer.json")
    )


def checkpoint(options: Options) -> dict[str, Any]:
    """{models, vocab, export: their paths; prompts, new_tokens}: the setup that all contenders share.

    Read if it exists at the options' size; otherwise trained and exported first.
    """
    shape = of_size(options.size)
    folder = (options.work / f"speaker-{options.size}").absolute()
    stories, held = corpus.generate(STORIES[options.size], PROMPTS, 1)
    texts = [story.text for story in stories]
    tokenizer = padded_tokenizer(texts, shape.vocab)
    places = {"models": str(folder / "models"), "vocab": str(folder / "vocab/tokenizer.json")}
    export = str(folder / "export")
    if not (folder / "ready.json").exists():
        _train(folder, shape, options, tokenizer, texts)
        run_command(
            "tinylm.cli", "export", export, "--models", places["models"], "--vocab", places["vocab"]
        )
        write_json(
            folder / "ready.json",
            {"updates": UPDATES[options.size], "shape": dataclasses.asdict(shape)},
        )
    prompts = [tokenizer.encode_story(story.text)[:PROMPT_TOKENS] for story in held]
    assert not any(PAD_ID in prompt for prompt in prompts)
    return places | {
        "export": export,
        "prompts": prompts,
        "new_tokens": shape.context - PROMPT_TOKENS - 4,
    }
