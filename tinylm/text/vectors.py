"""Word vectors: the (V, D) embedding matrix from skip-gram training, from a `.vec` file or at random.

In every matrix `<pad>` is all zero, and the other special tokens and the words without a vector are random rows
of the known rows' scale.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from tinylm.seeding import derive_seed
from tinylm.text.embedding_settings import EmbeddingSettings
from tinylm.text.words import SPECIALS, Tokenizer

RANDOM_STD = 0.02


def embedding_matrix(
    settings: EmbeddingSettings, tokenizer: Tokenizer, texts: Callable[[], Iterable[str]]
) -> tuple[np.ndarray, dict[str, Any]]:
    """((V, D) float32 matrix, what it was made of: words, covered, coverage, standard deviation, warnings).

    `texts` gives the train split's stories, raw or normalised; only skip-gram reads them. Raises InputError for
    a file that does not fit.
    """
    matrix = np.zeros((len(tokenizer), settings.width), dtype=np.float32)
    covered: np.ndarray = np.zeros(len(tokenizer), dtype=bool)
    warnings: list[str] = []
    if settings.source == "skipgram":
        from tinylm.text.skipgram import train_skipgram

        normalised = (tokenizer.normalise(text) for text in texts())
        words = tokenizer.words[len(SPECIALS) :]
        matrix[len(SPECIALS) :] = train_skipgram(normalised, words, settings)
        covered[:] = matrix.any(axis=1)
    elif settings.source == "file":
        from tinylm.text.vec_file import read_vectors

        warnings = read_vectors(Path(settings.path), tokenizer, matrix, covered)
    std = float(matrix[covered].std()) if covered.any() else RANDOM_STD
    rng = np.random.default_rng(derive_seed(settings.seed, "embedding"))
    drawn = rng.normal(0.0, std, size=matrix.shape).astype(np.float32)
    matrix = np.where(covered[:, None], matrix, drawn)
    matrix[tokenizer.pad_id] = 0.0
    count, found = len(tokenizer) - len(SPECIALS), int(covered.sum())
    info: dict[str, Any] = {"source": settings.source, "width": settings.width, "words": count}
    if settings.source != "random":
        info |= {"covered": found, "coverage": found / count if count else 0.0}
    return matrix, info | {"std": round(float(matrix.std()), 6), "warnings": warnings}
