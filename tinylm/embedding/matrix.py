"""Word vectors: the (V, D) embedding matrix by skip-gram, from counts, from a file or at random.

In every matrix `<pad>` is zero (if it has its own id). The other special tokens, and tokens without
a vector, are random rows with the scale of the other rows. With counts, all tokens that occur have
a vector.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tinylm.base.seeding import derive_seed
from tinylm.embedding.settings import EmbeddingSettings
from tinylm.vocab.tokenizer import Tokenizer

Texts = Callable[[], Iterable[str]]


def embedding_matrix(
    settings: EmbeddingSettings, tokenizer: Tokenizer, texts: Texts, ids: Callable[[], ArrayLike]
) -> tuple[np.ndarray, dict[str, Any]]:
    """((V, D) float32 matrix, its sources: words, covered, coverage, standard deviation).

    `words` counts the tokens that are text. With skip-gram, `covered` counts those of them that
    occur in the training text; the vector that fastText composes for any other was never trained.
    `texts` gives the train split's stories, raw or normalised, for skip-gram; `ids` its token ids,
    for counts. Raises InputError for a file that does not fit.
    """
    size = len(tokenizer)
    is_text = np.array([index not in tokenizer.specials for index in range(size)])
    matrix = np.zeros((size, settings.width), dtype=np.float32)
    has_vector: np.ndarray = np.zeros(size, dtype=bool)
    counted = is_text  # the tokens that coverage may count
    info: dict[str, Any] = {"source": settings.source, "width": settings.width}
    if settings.source == "skipgram":
        counted = _train(settings, tokenizer, texts, matrix)
        has_vector = np.asarray(matrix.any(axis=1))
    elif settings.source == "counts":
        from tinylm.embedding.counts import count_vectors

        stream = np.asarray(ids())
        vectors = count_vectors(stream, size, settings.width, settings.window, settings.seed)
        matrix = vectors * np.float32(settings.std)
        has_vector = np.asarray(matrix.any(axis=1))
    elif settings.source == "file":
        info |= _look_up(settings, tokenizer, matrix, has_vector)
    words = int(is_text.sum())
    info["words"] = words
    if settings.source != "random":
        covered = int((has_vector & counted).sum())
        info |= {"covered": covered, "coverage": covered / words if words else 0.0}
    std = settings.std
    if np.any(has_vector):
        std = float(matrix[has_vector].std()) or settings.std
    rng = np.random.default_rng(derive_seed(settings.seed, "embedding"))
    drawn = rng.normal(0.0, std, size=matrix.shape).astype(np.float32)
    matrix = np.where(np.expand_dims(has_vector, 1), matrix, drawn)
    other_roles = {tokenizer.sos_id, tokenizer.eos_id, tokenizer.unk_id}
    if tokenizer.pad_id in tokenizer.specials - other_roles:
        matrix[tokenizer.pad_id] = 0.0
    return matrix, info | {"std": round(float(matrix.std()), 6), "warnings": []}


def _train(
    settings: EmbeddingSettings, tokenizer: Tokenizer, texts: Texts, matrix: np.ndarray
) -> np.ndarray:
    """Fill the rows of the tokens that are text, by skip-gram. (V,): which of them occur."""
    from tinylm.embedding.skipgram import train_skipgram

    ids = [index for index in range(len(tokenizer)) if index not in tokenizer.specials]
    words = [tokenizer.tokens[index] for index in ids]
    seen: set[str] = set()

    def lines() -> Iterator[str]:
        for text in texts():
            pieces = tokenizer.split(text)
            seen.update(pieces)
            yield " ".join(pieces)

    matrix[ids] = train_skipgram(lines(), words, settings)
    occurs = np.zeros(len(tokenizer), dtype=bool)
    occurs[ids] = [word in seen for word in words]
    return occurs


def _look_up(
    settings: EmbeddingSettings, tokenizer: Tokenizer, matrix: np.ndarray, has_vector: np.ndarray
) -> dict[str, Any]:
    """Rows of a file of vectors by each token's bare word, which several tokens may share."""
    from tinylm.embedding.source import read_vectors, vector_file

    ids = [index for index in range(len(tokenizer)) if tokenizer.word_of(index)]
    words = [tokenizer.word_of(index) for index in ids]
    row_of = {word: row for row, word in enumerate(dict.fromkeys(words))}
    table, covered, info = read_vectors(vector_file(settings), list(row_of), settings.width)
    rows = [row_of[word] for word in words]
    matrix[ids] = table[rows]
    has_vector[ids] = covered[rows]
    return info
