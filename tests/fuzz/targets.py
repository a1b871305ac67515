"""Every parser and reader, each called as the stages and commands call it, and what a valid result of it is."""

import hashlib
import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.seeds import PARTS, WIDTH, WORDS, tiny_model
from tinylm.base.config import InputError, load_params
from tinylm.base.files import SEAL, sha256, write_json
from tinylm.decoding.settings import DecodeSettings
from tinylm.decoding.texts import generate_text
from tinylm.download.splits import write_stories
from tinylm.download.stories import SPLITS, DataSettings, read_stories
from tinylm.embedding.source import check_vectors, read_vectors
from tinylm.exchange.originals import verified
from tinylm.host.params import read_sections, rule_errors
from tinylm.model.checkpoint import load_model
from tinylm.train.snapshot import Snapshots
from tinylm.vocab.gpt2_files import read_local
from tinylm.vocab.matrix_file import load_matrix
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import open_tokenizer
from tinylm.vocab.words import build_tokenizer, count_words

TEXT = "One day a boy saw <eos> a b\u00efrd \U0001f600 \u05d0 42."
SAMPLING = DecodeSettings(
    temperature=0.8, top_k=5, top_p=0.9, repetition_penalty=1.2, length_penalty=0.6
)


def check(condition: Any, message: str) -> None:
    """AssertionError where a result is none that the project promises."""
    if not condition:
        raise AssertionError(message)


def params(folder: Path) -> None:
    """What the loader takes, ruamel reads as the same; the sections and their rules follow."""
    read = load_params(folder / "params.yaml")
    sections, errors = read_sections(read)
    errors += rule_errors(sections)
    check(all("\n" not in error for error in errors), "a problem of several lines")
    from ruamel.yaml import YAML

    if (folder / "params.yaml").stat().st_size > 20_000:
        return
    theirs = YAML(typ="safe", pure=True).load((folder / "params.yaml").read_text("utf-8"))
    check(_same(read, theirs), f"ruamel reads {str(theirs)[:200]!r}")


def _same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, dict):
        return isinstance(theirs, dict) and len(ours) == len(theirs) and all(
            key in theirs and _same(value, theirs[key]) for key, value in ours.items()
        )  # fmt: skip
    if isinstance(ours, list):
        return (
            isinstance(theirs, list) and len(ours) == len(theirs) and all(map(_same, ours, theirs))
        )
    return (
        ours == theirs
        or (ours != ours and theirs != theirs)
        or type(ours).__name__.startswith("date")
    )


def corpus(folder: Path) -> None:
    """Stage download over one local file: three splits of clean text, each story in one of them."""
    (path,) = folder.glob("a.*")
    settings = DataSettings(source="local", path=str(path), held_out_share=0.2)
    write_stories(settings, folder / "stories")
    found = [row["text"] for split in SPLITS for row in read_stories(folder / "stories", split)]
    check(
        len(found) >= 3 and all(text.strip() == text != "" and text.encode() for text in found),
        "odd stories",
    )


def vectors(folder: Path) -> None:
    """A finite matrix of the declared shape; a file that the quick look takes may still be refused."""
    (path,) = folder.glob("a.*")
    check_vectors(path, WIDTH)
    table, covered, _ = read_vectors(path, WORDS, WIDTH)
    check(table.shape == (len(WORDS), WIDTH) and table.dtype == np.float32, "another shape")
    check(np.isfinite(table).all() and covered.any(), "not finite, or nothing covered")


def tokenizer(folder: Path) -> None:
    opened = open_tokenizer(folder / "tokenizer.json")
    try:
        ids = opened.encode_story(TEXT)
    except InputError:
        ids = opened.encode(TEXT)
    check(all(0 <= index < len(opened) for index in ids), "an id outside the vocabulary")
    check(
        all(isinstance(opened.word_of(index), str) for index in range(len(opened))),
        "a word that is none",
    )
    opened.decode(ids).encode()


def gpt2(folder: Path) -> None:
    (path,) = list(folder.glob("a.tiktoken")) or [folder]
    tokens, merges = read_local(path)
    check(
        all(isinstance(token, str) for token in tokens) and all(len(pair) == 2 for pair in merges),
        "odd parts",
    )


def _continue(model: Any, opened: Any) -> None:
    (text,) = generate_text(model, opened, [TEXT], SAMPLING, max_new_tokens=3)
    check(isinstance(text, str), "no text")


def model(folder: Path) -> None:
    """A model that continues a text, or is refused."""
    opened = open_tokenizer(folder / "tokenizer.json")
    loaded, _ = load_model(folder)
    check(
        all(tensor.isfinite().all() for tensor in loaded.state_dict().values()),
        "weights that are not finite",
    )
    if loaded.vocab_size == len(opened):
        _continue(loaded, opened)


def export(folder: Path) -> None:
    source = verified(folder)
    _continue(load_model(source)[0], open_tokenizer(source / "tokenizer.json"))


def matrix(folder: Path) -> None:
    found = load_matrix(folder / "embedding.safetensors")
    check(
        found.ndim == 2 and found.dtype == np.float32 and np.isfinite(found).all(),
        "no finite matrix",
    )


def tokens(folder: Path) -> None:
    store = TokenStore(folder, "train")
    check(len(store.ids) == 0 or store.ids.max() < store.vocab_size, "an id outside the vocabulary")
    check(
        store.offsets[0] == 0 and store.offsets[-1] == len(store.ids),
        "offsets that do not span the ids",
    )
    check((np.diff(store.offsets) >= 0).all(), "offsets that go back")


def snapshot(folder: Path) -> None:
    found = Snapshots(folder, PARTS, 1.0).latest()
    check(
        found is None or (isinstance(found[0], dict) and isinstance(found[1], dict)), "no snapshot"
    )


def prompt(folder: Path) -> None:
    """Any bytes as a prompt, decoded as the shell's arguments are; a text comes back."""
    text = (folder / "prompt.txt").read_bytes().decode("utf-8", "surrogateescape")
    settings = VocabSettings(tokenizer="words")
    opened = build_tokenizer(count_words([" ".join(WORDS)], settings), settings)
    (continued,) = generate_text(
        tiny_model(len(opened)), opened, [text], SAMPLING, max_new_tokens=3
    )
    continued.encode()


def mend_checksums(folder: Path) -> None:
    """Make the checksums fit the damaged files: past them lies what a file made with intent reaches."""
    for path in folder.rglob("config.json"):
        _replace(path, {"sha256": path.with_name("model.safetensors")})
    for path in folder.rglob("sha256.json"):
        _replace(
            path,
            {file.name: file for file in path.parent.iterdir() if file.is_file() and file != path},
        )
    for path in folder.rglob("[0-9]*.json"):
        _replace(path, {"sha256": path.with_suffix(".safetensors")})
    for path in folder.glob("train.json"):
        _replace(
            path, {"ids_sha256": folder / "train.ids", "offsets_sha256": folder / "train.offsets"}
        )
    for path in folder.rglob("*.json"):
        _seal(path)
    for path in folder.glob("embedding.safetensors"):
        _sign_matrix(path)


def _seal(path: Path) -> None:
    """The SHA-256 that a sealed file holds of its own rest."""
    try:
        content = json.loads(path.read_text("utf-8"))
        if isinstance(content, dict) and SEAL in content:
            del content[SEAL]
            write_json(path, content, sealed=True)
    except (ValueError, RecursionError, UnicodeError):
        return


def _replace(path: Path, sums: dict[str, Path]) -> None:
    content = path.read_text("utf-8", "replace")
    for key, file in sums.items():
        content = re.sub(
            rf'("{re.escape(key)}": ")[0-9a-f]{{64}}"',
            lambda m, f=file: f'{m[1]}{sha256(f)}"',
            content,
        )
    path.write_text(content, "utf-8", "replace")


def _sign_matrix(path: Path) -> None:
    data = path.read_bytes()
    try:
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8 : 8 + size])
        header["__metadata__"]["sha256"] = hashlib.sha256(data[8 + size :]).hexdigest()
    except (ValueError, KeyError, TypeError, struct.error):
        return
    new = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(new)) + new + data[8 + size :])


# name -> (reader, its share of the cases)
TARGETS: dict[str, tuple[Callable[[Path], None], int]] = {
    "params": (params, 16), "jsonl": (corpus, 8), "csv": (corpus, 8), "txt": (corpus, 8), "parquet": (corpus, 4),
    "vec": (vectors, 12), "bin": (vectors, 12), "tokenizer": (tokenizer, 10), "gpt2": (gpt2, 4),
    "model": (model, 8), "export": (export, 6), "matrix": (matrix, 6), "tokens": (tokens, 4),
    "snapshot": (snapshot, 6), "prompt": (prompt, 6)
}  # fmt: skip
