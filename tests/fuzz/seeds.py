"""Small valid files of every format that is read: what the fuzzer damages."""

import csv
import gzip
import io
import json
import struct
from pathlib import Path

import numpy as np
import torch

from tests.support.small import model_settings
from tinylm.exchange.originals import write_originals
from tinylm.model.checkpoint import save_model
from tinylm.model.transformer import TinyLM
from tinylm.presets.write import BASE, preset_text
from tinylm.train.snapshot import Snapshots
from tinylm.vocab.bpe import train_bpe
from tinylm.vocab.longest_match import train_longest_match
from tinylm.vocab.matrix_file import save_matrix
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.token_store import write_store
from tinylm.vocab.words import build_tokenizer, count_words

STORIES = [f"One day a {child} saw a {animal}. It was \u201csad\u201d." for child in ("boy", "girl") for animal in
           ("dog", "cat", "b\u00efrd", "\U0001f600")]  # fmt: skip
WORDS = ["one", "day", "a", "boy", "girl", "saw", "dog", "cat", "sad", "it", "was"]
WIDTH, PARTS = 6, {"train.seed": 1}
SMALL_PARAMS = "a: 1\nb: {c: 1e-3, d: [1, 2], e: null}\nf: 'x'\ng: on\nh: 010\ni: 1_0\nj: .5\nk: 0x1F\nl: |\n  t\n"


def _bin() -> bytes:
    """A `.bin` of fastText's version 12 written by hand: 11 words, 4 buckets, random rows."""
    rng = np.random.default_rng(1)
    head = struct.pack("<ii", 793712314, 12) + struct.pack(
        "<11id", WIDTH, 3, 1, 1, 5, 1, 1, 2, 4, 3, 4, 1e-4
    )
    head = head[:8] + struct.pack("<12id", WIDTH, 3, 1, 1, 5, 1, 1, 2, 4, 2, 3, 100, 1e-4)
    words = b"".join(word.encode() + b"\0" + struct.pack("<qb", 5, 0) for word in WORDS)
    dictionary = struct.pack("<iiiqq", len(WORDS), len(WORDS), 0, 99, -1) + words
    parts = [head, dictionary]
    for rows in (len(WORDS) + 4, len(WORDS)):
        parts += [
            struct.pack("<Bqq", 0, rows, WIDTH),
            rng.normal(size=(rows, WIDTH)).astype("<f4").tobytes(),
        ]
    return b"".join(parts)


def _vec() -> bytes:
    rows = [
        f"{word} {' '.join(f'{0.1 * place + i:.2f}' for i in range(WIDTH))}"
        for place, word in enumerate(WORDS)
    ]
    return f"{len(rows)} {WIDTH}\n{chr(10).join(rows)}\n".encode()


def _parquet(folder: Path) -> bytes:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(
        pyarrow.table({"text": STORIES, "n": list(range(len(STORIES)))}), folder / "a.parquet"
    )
    return (folder / "a.parquet").read_bytes()


def tiny_model(vocab: int) -> TinyLM:
    """Two layers of width 6."""
    torch.manual_seed(1)
    settings = model_settings(heads=2, feed_forward=9, context=11)
    return TinyLM(settings, torch.randn(vocab, WIDTH)).eval()


def _files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _csv(separator: str) -> bytes:
    rows = io.StringIO()
    csv.writer(rows, delimiter=separator).writerows(enumerate(STORIES))
    return rows.getvalue().encode()


def make_seeds(folder: Path) -> dict[str, list[dict[str, bytes]]]:
    """{target: valid inputs, each the files of a folder}."""
    jsonl = "".join(
        json.dumps({"text": story, "n": 1}, ensure_ascii=False) + "\n" for story in STORIES
    ).encode()
    comma, semicolon = (f"n{mark}text\n".encode() + _csv(mark) for mark in ",;")
    txt, marked = (mark.join(STORIES).encode() for mark in ("\n\n", "\n<|endoftext|>\n"))
    seeds = {
        "params": [{"params.yaml": SMALL_PARAMS.encode()}] * 3 + [{"params.yaml": preset_text(BASE).encode()}],
        "jsonl": [{"a.jsonl": jsonl}, {"a.jsonl.gz": gzip.compress(jsonl, mtime=0)}],
        "csv": [{"a.csv": comma}, {"a.csv.gz": gzip.compress(semicolon, mtime=0)}],
        "txt": [{"a.txt": txt}, {"a.txt": marked}, {"a.txt.gz": gzip.compress(marked, mtime=0)}],
        "parquet": [{"a.parquet": _parquet(folder)}],
        "vec": [{"a.vec": _vec()}, {"a.vec.gz": gzip.compress(_vec(), mtime=0)}],
        "bin": [{"a.bin": _bin()}],
        "prompt": [{"prompt.txt": text.encode()} for text in (STORIES[0], "", "cat " * 50, "\u05d0\u0301x")],
    }  # fmt: skip
    words = VocabSettings(tokenizer="words")
    keep = VocabSettings(tokenizer="words", lower_case=False, punctuation="keep")
    bpe, longest = (
        VocabSettings(tokenizer=kind, max_size=300) for kind in ("bpe", "longest_match")
    )
    made = [build_tokenizer(count_words(STORIES, each), each) for each in (words, keep)]
    seeds["tokenizer"] = []
    for tokenizer in (*made, train_bpe(STORIES, bpe), train_longest_match(STORIES, longest)):
        tokenizer.save(folder / "tokenizer.json")
        seeds["tokenizer"].append({"tokenizer.json": (folder / "tokenizer.json").read_bytes()})
    (folder / "vocab.json").write_text('{"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3}')
    gpt2 = {
        "vocab.json": (folder / "vocab.json").read_bytes(),
        "merges.txt": b"#version: 0.2\na b\n",
    }
    seeds["gpt2"] = [gpt2, {"a.tiktoken": b"YQ== 0\nYg== 1\nYWI= 2\n"}]

    made[0].save(folder / "run/tokenizer.json")
    model = tiny_model(len(made[0]))
    save_model(folder / "run", model, layout="stories")
    seeds["model"] = [_files(folder / "run")]
    write_originals(folder / "export", folder / "run", folder / "run/tokenizer.json")
    seeds["export"] = [_files(folder / "export")]
    save_matrix(folder / "matrix/embedding.safetensors", model.embedding.detach().numpy())
    seeds["matrix"] = [_files(folder / "matrix")]
    write_store(folder / "tokens", "train", ([0, 4, 5, 1], [0, 6, 1]), len(made[0]))
    seeds["tokens"] = [_files(folder / "tokens")]
    snapshots = Snapshots(folder / "snapshots", PARTS, 1.0)
    for update in (1, 2):
        snapshots.save(update, {"w": torch.arange(6.0).reshape(2, 3), "state": torch.zeros(9, dtype=torch.uint8)},
                       {"update": update, "rows": [[1, 2.5, None]]})  # fmt: skip
    seeds["snapshot"] = [_files(folder / "snapshots")]
    return seeds
