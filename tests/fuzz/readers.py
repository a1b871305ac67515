"""Every reader of files, called as the stages call it, and what a valid result of it is."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.fuzz.inputs import PARTS, WIDTH, WORDS
from tinylm.base.config import InputError, load_params
from tinylm.download.splits import write_stories
from tinylm.download.stories import SPLITS, DataSettings, read_stories
from tinylm.embedding.source import check_vectors, read_vectors
from tinylm.host.params import read_sections, rule_errors
from tinylm.model.checkpoint import load_model
from tinylm.train.snapshot import Snapshots
from tinylm.vocab.gpt2 import read_folder
from tinylm.vocab.kinds import open_tokenizer
from tinylm.vocab.matrix_file import load_matrix

TEXT = "One day a boy saw <eos> a b\u00efrd \U0001f600 \u05d0 42."


def params(folder: Path) -> None:
    """Every error is one line."""
    sections, errors = read_sections(load_params(folder / "params.yaml"))
    errors += rule_errors(sections)
    assert all("\n" not in error for error in errors)


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


def tokenizer(folder: Path) -> None:
    """Ids within the vocabulary, for any text."""
    opened = open_tokenizer(folder / "tokenizer.json")
    try:
        ids = opened.encode_story(TEXT)
    except InputError:
        ids = opened.encode(TEXT)
    assert all(0 <= index < len(opened) for index in ids)
    opened.decode(ids).encode()


def gpt2(folder: Path) -> None:
    """Tokens that are texts, and merges of two."""
    tokens, merges = read_folder(folder)
    assert all(isinstance(token, str) for token in tokens)
    assert all(len(pair) == 2 for pair in merges)


def model(folder: Path) -> None:
    """Finite weights."""
    loaded, _ = load_model(folder)
    assert all(tensor.isfinite().all() for tensor in loaded.state_dict().values())


def matrix(folder: Path) -> None:
    """A finite float32 matrix."""
    values = load_matrix(folder / "embedding.safetensors")
    assert values.ndim == 2
    assert values.dtype == np.float32
    assert np.isfinite(values).all()


def snapshot(folder: Path) -> None:
    """A whole snapshot, or none."""
    latest = Snapshots(folder, PARTS, 1.0).latest()
    assert latest is None or isinstance(latest[0], dict)


READERS: dict[str, Callable[[Path], None]] = {
    **dict.fromkeys(("jsonl", "csv", "txt", "parquet"), corpus),
    **dict.fromkeys(("vec", "bin"), vectors),
    **{each.__name__: each for each in (params, tokenizer, gpt2, model, matrix, snapshot)},
}
