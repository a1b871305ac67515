import tempfile
from pathlib import Path

import numpy as np
import torch

from tinylm.text.words import Splitter
from tinylm.vocab.embedding.matrix import embedding_matrix as matrix_of
from tinylm.vocab.embedding.settings import EmbeddingSettings
from tinylm.vocab.words import WordTokenizer


def _matrix(vocabulary, vectors, width, seed):
    tokenizer = WordTokenizer(vocabulary[4:], Splitter(True, "drop"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "words.vec"
        lines = [f"{len(vectors)} {width}"]
        lines += [f"{word} {' '.join(map(str, row))}" for word, row in vectors.items()]
        path.write_text("\n".join(lines) + "\n")
        settings = EmbeddingSettings(
            source="file" if vectors else "random", path=str(path), hub=None, width=width, std=0.02,
        )  # fmt: skip
        return matrix_of(settings, tokenizer, lambda: [], lambda: np.zeros(0, int), seed)


def embedding_matrix(vocabulary, vectors, width, seed):
    return torch.from_numpy(_matrix(vocabulary, vectors, width, seed)[0])


def coverage(vocabulary, vectors):
    width = len(next(iter(vectors.values()), [0.0]))
    return float(_matrix(vocabulary, vectors, width, 1)[1].get("coverage", 0.0))
