"""The readers of files that users write, each with valid inputs and with what must hold for what it reads."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from tinylm.download.splits import write_stories
from tinylm.download.stories import SPLITS, DataSettings, read_stories
from tinylm.embedding.source import check_vectors, read_vectors
from tinylm.params.params import read_params
from tinylm.presets.write import BASE, preset_text
from tinylm.vocab.gpt2 import read_folder

STORIES = [
    f"One day a {child} saw a {animal}. It was \u201csad\u201d."
    for child in ("boy", "girl")
    for animal in ("dog", "cat", "b\u00efrd", "\U0001f600")
]
WORDS = ["one", "day", "a", "boy", "girl", "saw", "dog", "cat", "sad", "it", "was"]
WIDTH = 6
Files = dict[str, bytes]


def params(folder: Path) -> None:
    """The settings of every section."""
    read_params(folder / "params.yaml")


def corpus(folder: Path) -> None:
    """Three splits of clean text."""
    (path,) = folder.glob("a.*")
    settings = DataSettings(source="local", path=str(path), held_out_share=0.2)
    write_stories(settings, folder / "stories")
    for split in SPLITS:
        texts = [row["text"] for row in read_stories(folder / "stories", split)]
        assert texts
        assert all(text == text.strip() != "" for text in texts)


def vectors(folder: Path) -> None:
    """A finite matrix of the declared shape."""
    (path,) = folder.glob("a.*")
    check_vectors(path, WIDTH)
    matrix = read_vectors(path, WORDS, WIDTH)
    assert matrix.shape == (len(WORDS), WIDTH)
    assert np.isfinite(matrix).all()
    assert matrix.any()


def gpt2(folder: Path) -> None:
    """Tokens that are texts, and merges of two."""
    tokens, merges = read_folder(folder)
    assert all(isinstance(token, str) for token in tokens)
    assert all(len(pair) == 2 for pair in merges)


READERS: dict[str, Callable[[Path], None]] = {
    **dict.fromkeys(("jsonl", "csv", "txt", "parquet"), corpus),
    "vec": vectors,
    "gpt2": gpt2,
    "params": params,
}


def valid_inputs(folder: Path) -> dict[str, list[Files]]:
    """{reader: valid inputs, each the files of a folder}."""
    frame = pd.DataFrame({"n": range(len(STORIES)), "text": STORIES})
    frame.to_parquet(folder / "a.parquet")
    rows = [json.dumps({"text": story, "n": 1}, ensure_ascii=False) + "\n" for story in STORIES]
    jsonl = "".join(rows).encode()
    table = frame.to_csv(index=False).encode()
    marked = "\n<|endoftext|>\n".join(STORIES).encode()
    lines = [f"{len(WORDS)} {WIDTH}"]
    for row, word in enumerate(WORDS):
        numbers = " ".join(f"{0.1 * row + column:.2f}" for column in range(WIDTH))
        lines.append(f"{word} {numbers}")
    vec = "\n".join(lines).encode() + b"\n"
    bpe = {
        "vocab.json": b'{"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3}',
        "merges.txt": b"#version: 0.2\na b\n",
    }
    return {
        "jsonl": [{"a.jsonl": jsonl}, {"a.jsonl.gz": gzip.compress(jsonl, mtime=0)}],
        "csv": [{"a.csv": table}, {"a.csv.gz": gzip.compress(table, mtime=0)}],
        "txt": [{"a.txt": "\n\n".join(STORIES).encode()}, {"a.txt": marked}],
        "parquet": [{"a.parquet": (folder / "a.parquet").read_bytes()}],
        "vec": [{"a.vec": vec}, {"a.vec.gz": gzip.compress(vec, mtime=0)}],
        "gpt2": [bpe],
        "params": [{"params.yaml": preset_text(BASE).encode()}],
    }
