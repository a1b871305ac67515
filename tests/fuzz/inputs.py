"""Small valid files of every format that is read."""

import gzip
import json
from pathlib import Path

import fasttext
import pandas as pd
import torch

from tests.support.folders import contents
from tests.support.small import model_settings
from tinylm.embedding.skipgram import zeroed_memory
from tinylm.model.checkpoint import save_model
from tinylm.model.transformer import TinyLM
from tinylm.presets.write import BASE, preset_text
from tinylm.train.snapshot import Snapshots
from tinylm.vocab.bpe import train_bpe
from tinylm.vocab.longest_match import train_longest_match
from tinylm.vocab.matrix_file import save_matrix
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.words import build_tokenizer, count_words

STORIES = [
    f"One day a {child} saw a {animal}. It was \u201csad\u201d."
    for child in ("boy", "girl")
    for animal in ("dog", "cat", "b\u00efrd", "\U0001f600")
]
WORDS = ["one", "day", "a", "boy", "girl", "saw", "dog", "cat", "sad", "it", "was"]
WIDTH = 6
PARTS = {"train.seed": 1}
Files = dict[str, bytes]


def fasttext_bin(folder: Path) -> bytes:
    """A `.bin` that fastText wrote: the words, 4 buckets, rows after one pass.

    fastText leaves a part of the rows as the allocator returns them: zeros, so that all is finite.
    """
    (folder / "words.txt").write_text(" ".join(WORDS * 3), encoding="utf-8")
    options = {"dim": WIDTH, "bucket": 4, "minCount": 1, "epoch": 1, "thread": 1, "verbose": 0}
    with zeroed_memory():
        trained = fasttext.train_unsupervised(str(folder / "words.txt"), **options)
    trained.save_model(str(folder / "a.bin"))
    return (folder / "a.bin").read_bytes()


def vec() -> bytes:
    """A `.vec` file: a line with rows and width, then a word and its numbers on each line."""
    lines = [f"{len(WORDS)} {WIDTH}"]
    for row, word in enumerate(WORDS):
        numbers = " ".join(f"{0.1 * row + column:.2f}" for column in range(WIDTH))
        lines.append(f"{word} {numbers}")
    return "\n".join(lines).encode() + b"\n"


def _corpora(folder: Path) -> dict[str, list[Files]]:
    frame = pd.DataFrame({"n": range(len(STORIES)), "text": STORIES})
    frame.to_parquet(folder / "a.parquet")
    rows = [json.dumps({"text": story, "n": 1}, ensure_ascii=False) + "\n" for story in STORIES]
    jsonl = "".join(rows).encode()
    table = frame.to_csv(index=False).encode()
    marked = "\n<|endoftext|>\n".join(STORIES).encode()
    return {
        "jsonl": [{"a.jsonl": jsonl}, {"a.jsonl.gz": gzip.compress(jsonl, mtime=0)}],
        "csv": [{"a.csv": table}, {"a.csv.gz": gzip.compress(table, mtime=0)}],
        "txt": [{"a.txt": "\n\n".join(STORIES).encode()}, {"a.txt": marked}],
        "parquet": [{"a.parquet": (folder / "a.parquet").read_bytes()}],
    }


def _tokenizers(folder: Path) -> list[Files]:
    words = VocabSettings(tokenizer="words")
    cased = VocabSettings(tokenizer="words", lower_case=False, punctuation="keep")
    tokenizers = [build_tokenizer(count_words(STORIES, each), each) for each in (words, cased)]
    tokenizers.append(train_bpe(STORIES, VocabSettings(tokenizer="bpe", max_size=300)))
    longest = VocabSettings(tokenizer="longest_match", max_size=300)
    tokenizers.append(train_longest_match(STORIES, longest))
    saved = []
    for tokenizer in tokenizers:
        tokenizer.save(folder / "tokenizer.json")
        saved.append(contents(folder, "tokenizer.json"))
    return saved


def make_inputs(folder: Path) -> dict[str, list[Files]]:
    """{reader: valid inputs, each the files of a folder}."""
    gpt2 = {
        "vocab.json": b'{"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3}',
        "merges.txt": b"#version: 0.2\na b\n",
    }
    torch.manual_seed(1)
    settings = model_settings(heads=2, feed_forward=9, context=11)
    model = TinyLM(settings, torch.randn(len(WORDS) + 4, WIDTH)).eval()
    save_model(folder / "run", model, layout="stories")
    save_matrix(folder / "matrix/embedding.safetensors", model.state_dict()["embedding"].numpy())
    snapshots = Snapshots(folder / "snapshots", PARTS, 1.0)
    tensors = {"w": torch.arange(6.0).reshape(2, 3), "state": torch.zeros(9, dtype=torch.uint8)}
    for update in (1, 2):
        snapshots.save(update, tensors, {"update": update, "rows": [[1, 2.5, None]]})
    return {
        "params": [{"params.yaml": preset_text(BASE).encode()}],
        **_corpora(folder),
        "vec": [{"a.vec": vec()}, {"a.vec.gz": gzip.compress(vec(), mtime=0)}],
        "bin": [{"a.bin": fasttext_bin(folder)}],
        "tokenizer": _tokenizers(folder),
        "gpt2": [gpt2],
        "model": [contents(folder / "run")],
        "matrix": [contents(folder / "matrix")],
        "snapshot": [contents(folder / "snapshots")],
    }
