"""Small files in fastText's binary format, trained by fastText; no row of them is zero."""

import struct

import numpy as np
import pytest

from tinylm.embedding.skipgram import zeroed_memory

LINES = [
    "the cat sat on the mat",
    "a naïve привет dog sat on a 日本語 log",
    "cats and dogs, é à la mode 😀",
]
VERSION_AT = 4
MATRIX_HEAD = 17  # bytes


@pytest.fixture
def train_bin(tmp_path):
    """(name, version, supervised, settings of fastText's training) -> path of a `.bin` file."""

    def train(name="a", version=12, supervised=False, repeats=5, **settings):
        import fasttext

        text = tmp_path / f"{name}.txt"
        labels = [f"__label__{number % 2} " if supervised else "" for number in range(len(LINES))]
        text.write_text(
            "".join(f"{label}{line}\n" for label, line in zip(labels, LINES, strict=True)) * repeats
        )
        settings = {
            "dim": 7,
            "minCount": 1,
            "epoch": 2,
            "bucket": 50,
            "thread": 1,
            "verbose": 0,
        } | settings
        trainer = fasttext.train_supervised if supervised else fasttext.train_unsupervised
        path = tmp_path / f"{name}.bin"
        with zeroed_memory():  # fastText reads memory that it never wrote
            model = trainer(str(text), **settings)
        model.save_model(str(path))
        content = bytearray(path.read_bytes())
        content[VERSION_AT : VERSION_AT + 4] = struct.pack("<i", version)
        rows, outputs = model.get_input_matrix(), model.get_output_matrix()
        end = len(content) - outputs.nbytes - MATRIX_HEAD
        content[end - rows.nbytes : end] = (
            np.random.default_rng(1).normal(size=rows.shape).astype("<f4").tobytes()
        )
        path.write_bytes(content)
        return path

    return train
