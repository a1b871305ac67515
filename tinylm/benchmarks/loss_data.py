"""The data of the line `loss`: tokens of ../shared/tinystories as both contenders read them, or of the storybook.

All words of train are ids, lower-case, without punctuation, quotes as published; <sos> and <eos> stand in the stream
and are scored. Two per cent of the train stories are held out, to choose by; nothing trains on them.
"""

import dataclasses
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tinylm.base.files import atomic_write, read_json, write_json
from tinylm.benchmarks.checkpoint import WORDS
from tinylm.benchmarks.interleaved import ROOT
from tinylm.benchmarks.options import Options
from tinylm.benchmarks.shape import Shape, of_size, section
from tinylm.text.corpus.splits import DataSettings, write_stories
from tinylm.text.stores.token_store import write_store
from tinylm.text.stories.stories import SPLITS, read_stories
from tinylm.text.tokens.words import WordTokenizer, build_tokenizer, count_words

SHARED = Path("../shared/tinystories")
STORIES = {"full": 12_000, "tiny": 60}  # of the storybook, where there is no ../shared
CORPORA = ("tinystories", "storybook")


def default_corpus() -> str:
    """tinystories where ../shared is at hand."""
    return "tinystories" if (ROOT / SHARED).exists() else "storybook"


def _settings(corpus: str, size: str) -> DataSettings:
    own: dict[str, Any] = {"held_out_share": 0.02, "repair_quotes": False, "evaluation_stories": 500}
    if corpus == "tinystories":
        own |= {"source": "local", "path": str((ROOT / SHARED).resolve()), "train_stories": None}
    else:
        own |= {"train_stories": STORIES[size]}
    if size == "tiny":
        own |= {"train_stories": STORIES["tiny"], "evaluation_stories": 5}
    return section("data", DataSettings, own)


def _write(folder: Path, corpus: str, size: str) -> int:
    """Token stores, vocabulary and the train split's words as plain text; how many ids there are."""
    with tempfile.TemporaryDirectory() as stories:
        write_stories(_settings(corpus, size), Path(stories))

        def texts(*splits: str) -> Iterable[str]:
            return (row["text"] for split in splits for row in read_stories(stories, split))

        words: WordTokenizer = build_tokenizer(count_words(texts("train", "held_out"), WORDS), WORDS)
        words.save(folder / "tokenizer.json")
        for split in SPLITS:
            write_store(folder / "tokens", split, map(words.encode_story, texts(split)), len(words))
        with atomic_write(folder / "train.txt") as handle:
            handle.writelines(text.replace("\n", " ") + "\n" for text in texts("train"))
    return len(words)


def prepare(options: Options, corpus: str) -> tuple[Path, Shape]:
    """(the data's folder, made where it is not there yet; word-50k's shape with its vocabulary)."""
    folder = (options.work / f"loss-{corpus}-{options.size}").absolute()
    ready = folder / "ready.json"
    if not ready.exists():
        write_json(ready, {"vocab": _write(folder, corpus, options.size)})
    return folder, dataclasses.replace(of_size(options.size), vocab=read_json(ready)["vocab"])
