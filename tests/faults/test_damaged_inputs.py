"""Damaged files of users: each is refused in one line, or read as something valid."""

import json

import numpy as np
import pandas as pd
import pytest

from tinylm.base.config import InputError
from tinylm.download.splits import write_stories
from tinylm.download.stories import SPLITS, DataSettings, read_stories
from tinylm.embedding.source import check_vectors, read_vectors
from tinylm.params.params import read_params
from tinylm.presets.write import BASE, preset_text
from tinylm.vocab.gpt2 import read_folder

PETS = ("dog", "cat", "bïrd", "owl")
STORIES = [f"One day a {child} saw a {pet}." for child in ("boy", "girl") for pet in PETS]
WORDS = ["one", "day", "a", "boy"]
WIDTH = 3


def corpus(path):
    """Three splits of clean text."""
    settings = DataSettings(source="local", path=str(path), held_out_share=0.2)
    write_stories(settings, path.parent / "stories")
    for split in SPLITS:
        texts = [row["text"] for row in read_stories(path.parent / "stories", split)]
        assert texts == [text.strip() for text in texts if text]


def vectors(path):
    """A finite matrix of the declared shape."""
    check_vectors(path, WIDTH)
    matrix = read_vectors(path, WORDS, WIDTH)
    assert matrix.shape == (len(WORDS), WIDTH)
    assert np.isfinite(matrix).all()


READERS = {
    "a.jsonl": corpus,
    "a.csv": corpus,
    "a.txt": corpus,
    "a.parquet": corpus,
    "a.vec": vectors,
    "vocab.json": lambda path: read_folder(path.parent),
    "params.yaml": read_params,
}
DAMAGE = {
    "nothing": lambda data: data,
    "half of it": lambda data: data[: len(data) // 2],
    "a flipped bit": lambda data: data[:9] + bytes([data[9] ^ 64]) + data[10:],
    "a control character": lambda data: data[:12] + b"\0" + data[12:],
    "not UTF-8": lambda data: data[:12] + b"\xff\xfe" + data[12:],
    "deep nesting": lambda data: b"[" * 20_000 + data,
    "an endless key": lambda data: b"a: {" + b"k" * 10_000 + data,
}


def write_valid(folder, name):
    """A valid file of this name, with what belongs to it."""
    frame = pd.DataFrame({"n": range(len(STORIES)), "text": STORIES})
    numbers = " ".join("0.5" for _ in range(WIDTH))
    texts = {
        "a.jsonl": "".join(json.dumps({"text": story}) + "\n" for story in STORIES),
        "a.csv": frame.to_csv(index=False),
        "a.txt": "\n\n".join(STORIES),
        "a.vec": "\n".join([f"{len(WORDS)} {WIDTH}", *(f"{word} {numbers}" for word in WORDS)])
        + "\n",
        "vocab.json": '{"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3}',
        "params.yaml": preset_text(BASE),
    }
    if name == "a.parquet":
        frame.to_parquet(folder / name)
    else:
        (folder / name).write_text(texts[name], encoding="utf-8")
    if name == "vocab.json":
        (folder / "merges.txt").write_text("#version: 0.2\na b\n")


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_refused_in_one_line_or_read(tmp_path, name, damage):
    write_valid(tmp_path, name)
    path = tmp_path / name
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    try:
        READERS[name](path)
    except InputError as error:
        assert damage != "nothing"
        lines = str(error).splitlines()
        assert len(lines) == 1 or name == "params.yaml"
        assert all(line.strip() and len(line) <= 2000 for line in lines)
