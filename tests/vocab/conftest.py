"""Small files in fastText's binary format, trained by fastText; no row of them is zero."""

import struct
import unicodedata

import numpy as np
import pytest

from tinylm.vocab.embedding.skipgram import zeroed_memory

LINES = [
    "the cat sat on the mat",
    "a naïve привет dog sat on a 日本語 log",
    "cats and dogs, é à la mode 😀",
]
VERSION_OFFSET = 4
MATRIX_HEAD = 17  # bytes
DEFAULTS = {"dim": 7, "minCount": 1, "epoch": 2, "bucket": 50, "thread": 1, "verbose": 0}


@pytest.fixture
def train_bin(tmp_path):
    """(version, supervised, Unicode's form of the text, fastText's settings) -> path of a `.bin` file."""

    def train(version=12, supervised=False, form="NFC", **settings):
        import fasttext

        label = "__label__0 " if supervised else ""
        lines = [unicodedata.normalize(form, line) for line in LINES]
        (tmp_path / "a.txt").write_text("".join(f"{label}{line}\n" for line in lines) * 5)
        trainer = fasttext.train_supervised if supervised else fasttext.train_unsupervised
        path = tmp_path / "a.bin"
        with zeroed_memory():  # fastText reads memory that it never wrote
            model = trainer(str(tmp_path / "a.txt"), **(DEFAULTS | settings))
        model.save_model(str(path))
        content = bytearray(path.read_bytes())
        content[VERSION_OFFSET : VERSION_OFFSET + 4] = struct.pack("<i", version)
        rows = model.get_input_matrix()
        end = len(content) - model.get_output_matrix().nbytes - MATRIX_HEAD
        random_rows = np.random.default_rng(1).normal(size=rows.shape).astype("<f4")
        content[end - rows.nbytes : end] = random_rows.tobytes()
        path.write_bytes(content)
        return path

    return train
