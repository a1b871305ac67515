"""Word vectors: the (V, D) embedding matrix from skip-gram training, from a `.vec` file or at random.

In every matrix `<pad>` is all zero, and the other special tokens and the words without a vector are random rows
of the known rows' scale.
"""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from tinylm.config import InputError
from tinylm.files import atomic_path, require
from tinylm.seeding import derive_seed
from tinylm.text.skipgram import EmbeddingSettings, train_skipgram
from tinylm.text.vec_file import read_vectors
from tinylm.text.words import SPECIALS, Tokenizer

RANDOM_STD = 0.02
TENSOR = "embedding"


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
        normalised = (tokenizer.normalise(text) for text in texts())
        words = tokenizer.words[len(SPECIALS) :]
        matrix[len(SPECIALS) :] = train_skipgram(normalised, words, settings)
        covered[:] = matrix.any(axis=1)
    elif settings.source == "file":
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


def save_matrix(path: str | Path, matrix: np.ndarray) -> None:
    """Write the (V, D) matrix as safetensors, key "embedding", the data's SHA-256 among the metadata."""
    from safetensors.numpy import save_file

    matrix = np.ascontiguousarray(matrix, dtype=np.float32)
    with atomic_path(path) as temporary:
        save_file({TENSOR: matrix}, str(temporary), metadata={"sha256": hashlib.sha256(matrix.data).hexdigest()})


def load_matrix(path: str | Path) -> np.ndarray:
    """Read what `save_matrix` wrote, (V, D) float32; InputError names the file where it is anything else."""
    from safetensors import SafetensorError, safe_open

    require(path, "vocab")
    again = f"rm {path} and run dvc repro -f -s vocab"
    try:
        with safe_open(str(path), framework="numpy") as file:
            names, metadata = sorted(file.keys()), file.metadata() or {}
            matrix = file.get_tensor(TENSOR) if names == [TENSOR] else None
    except (SafetensorError, OSError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path}: not a safetensors file of tinylm's ({error}); {again}") from None
    if matrix is None:
        raise InputError(f"{path}: holds tensors {names}; allowed: {TENSOR!r} alone; {again}")
    if matrix.dtype != np.float32 or matrix.ndim != 2:
        raise InputError(f"{path}: {TENSOR} is {matrix.dtype} {matrix.shape}; allowed: float32 (V, D); {again}")
    if metadata.get("sha256") != hashlib.sha256(np.ascontiguousarray(matrix).data).hexdigest():
        raise InputError(f"{path}: its SHA-256 is not the one it was written with; {again}")
    if not np.isfinite(matrix).all():
        raise InputError(f"{path}: holds values that are not finite; {again}")
    return matrix
