"""A model to decode with, made once and kept: trained for some minutes, exported, so that all sides say the same."""

import dataclasses
import itertools
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from tinylm.base.files import sha256, write_json
from tinylm.benchmarks.interleaved import ROOT
from tinylm.benchmarks.options import Options
from tinylm.benchmarks.shape import PAD_ID, Shape, model_settings, new_trainer_on, of_size, train_settings
from tinylm.host.command import CommandFailed
from tinylm.model.checkpoint import save_model
from tinylm.text.stores.token_store import write_store
from tinylm.text.storybook import corpus
from tinylm.text.tokens.settings import VocabSettings
from tinylm.text.tokens.words import WordTokenizer, build_tokenizer, count_words

STORIES = {"full": 4000, "tiny": 30}
UPDATES = {"full": 300, "tiny": 1}
PROMPTS, PROMPT_TOKENS = 20, 5
WORDS = VocabSettings(tokenizer="words")


@dataclasses.dataclass(frozen=True)
class Speaker:
    """Where a prepared model lies, and what it is asked."""

    folder: Path
    prompts: list[list[int]]
    new_tokens: int

    @property
    def models(self) -> str:
        return str(self.folder / "models")

    @property
    def vocab(self) -> str:
        return str(self.folder / "vocab/tokenizer.json")

    @property
    def export(self) -> str:
        return str(self.folder / "export")


def padded_tokenizer(texts: Iterable[str], size: int) -> WordTokenizer:
    """The stories' words, and made-up ones behind them until there are `size` ids; at most so many."""
    known = build_tokenizer(count_words(texts, WORDS), WORDS)
    words = known.tokens[len(known.specials) :][: size - len(known.specials)]
    fill = (f"word{number:06d}" for number in itertools.count())
    words += itertools.islice(fill, size - len(known.specials) - len(words))
    return WordTokenizer(words, known.split)


def _train(folder: Path, shape: Shape, options: Options, tokenizer: WordTokenizer, texts: list[str]) -> None:
    write_store(folder / "tokens", "train", (tokenizer.encode_story(text) for text in texts), shape.vocab)
    updates = UPDATES[options.size]
    settings = train_settings(shape, tokens=updates * shape.step_tokens, precision="bf16")
    trainer = new_trainer_on(folder / "tokens", shape, model_settings(shape), settings, options.threads)
    for number in range(updates):
        nats, _, _ = trainer.update(trainer.next_batches())
        if number % 50 == 0 or number + 1 == updates:
            print(f"model to decode with: update {number + 1} of {updates}, loss {nats:.3f}", flush=True)
    tokenizer.save(folder / "vocab/tokenizer.json")
    save_model(folder / "models", trainer.model, tokenizer_sha256=sha256(folder / "vocab/tokenizer.json"))


def _export(folder: Path) -> None:
    command = [sys.executable, "-m", "tinylm.cli", "export", str(folder / "export"), "--models", str(folder / "models")]
    command += ["--vocab", str(folder / "vocab/tokenizer.json")]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if made.returncode:
        raise CommandFailed(f"tinylm export: {made.stderr.strip()}")


def speaker(options: Options) -> Speaker:
    """The prepared model at the options' size: read where it lies, else trained and exported first."""
    shape = of_size(options.size)
    folder = (options.work / f"speaker-{options.size}").absolute()
    stories, held = corpus.generate(STORIES[options.size], PROMPTS, 1)
    texts = [story.text for story in stories]
    tokenizer = padded_tokenizer(texts, shape.vocab)
    if not (folder / "ready.json").exists():
        _train(folder, shape, options, tokenizer, texts)
        _export(folder)
        write_json(folder / "ready.json", {"updates": UPDATES[options.size], "shape": dataclasses.asdict(shape)})
    prompts = [tokenizer.encode_story(story.text)[:PROMPT_TOKENS] for story in held]
    assert not np.any([PAD_ID in prompt for prompt in prompts])
    return Speaker(folder, prompts, shape.context - PROMPT_TOKENS - 4)
