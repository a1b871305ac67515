"""Word vectors: the (V, D) embedding matrix by skip-gram, from counts of neighbours, from a file or at random.

In every matrix `<pad>` is zero (if it has its own id); the other special tokens, and tokens without a vector, are
random rows with the scale of the known rows; with counts, all tokens that occur have a vector.
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
    """((V, D) float32 matrix, its sources: words, covered, coverage, standard deviation, warnings).

    `words` counts the tokens that are text. With skip-gram, `covered` counts those of them that occur in the training
    text; the vector that fastText composes for any other was never trained. `texts` gives the train split's stories,
    raw or normalised, for skip-gram; `ids` its token ids, for counts. Raises InputError for a file that does not fit.
    """
    size = len(tokenizer)
    matrix = np.zeros((size, settings.width), dtype=np.float32)
    covered: np.ndarray = np.zeros(size, dtype=bool)
    trained: np.ndarray = np.ones(size, dtype=bool)
    info: dict[str, Any] = {"source": settings.source, "width": settings.width}
    warnings: list[str] = []
    if settings.source == "skipgram":
        trained = _train(settings, tokenizer, texts, matrix)
        covered[:] = matrix.any(axis=1)
    elif settings.source == "counts":
        from tinylm.embedding.counts import count_vectors

        counted = count_vectors(
            np.asarray(ids()), size, settings.width, settings.window, settings.seed
        )
        matrix = counted * np.float32(settings.std)
        covered[:] = matrix.any(axis=1)
        trained = np.array([index not in tokenizer.specials for index in range(size)])
    elif settings.source == "file":
        found = _look_up(settings, tokenizer, matrix, covered)
        warnings = found.pop("warnings")
        info |= found
    info["words"] = count = size - len(tokenizer.specials)
    if settings.source != "random":
        number = int((covered & trained).sum())
        info |= {"covered": number, "coverage": number / count if count else 0.0}
    std = float(matrix[covered].std()) or settings.std if covered.any() else settings.std
    rng = np.random.default_rng(derive_seed(settings.seed, "embedding"))
    drawn = rng.normal(0.0, std, size=matrix.shape).astype(np.float32)
    matrix = np.where(covered[:, None], matrix, drawn)
    if tokenizer.pad_id in tokenizer.specials - {
        tokenizer.sos_id,
        tokenizer.eos_id,
        tokenizer.unk_id,
    }:
        matrix[tokenizer.pad_id] = 0.0
    return matrix, info | {"std": round(float(matrix.std()), 6), "warnings": warnings}


def _train(
    settings: EmbeddingSettings, tokenizer: Tokenizer, texts: Texts, matrix: np.ndarray
) -> np.ndarray:
    """Skip-gram over the texts as tokens; fills the rows of the tokens that are text. (V,): which of them occur."""
    from tinylm.embedding.skipgram import train_skipgram

    ids = [index for index in range(len(tokenizer)) if index not in tokenizer.specials]
    known = {tokenizer.tokens[index] for index in ids}
    seen: set[str] = set()

    def lines() -> Iterator[str]:
        for text in texts():
            pieces = tokenizer.split(text)
            seen.update(known.intersection(pieces))
            yield " ".join(pieces)

    matrix[ids] = train_skipgram(lines(), [tokenizer.tokens[index] for index in ids], settings)
    return np.array([token in seen for token in tokenizer.tokens])


def _look_up(
    settings: EmbeddingSettings, tokenizer: Tokenizer, matrix: np.ndarray, covered: np.ndarray
) -> dict[str, Any]:
    """Rows of a file of vectors by each token's bare word, which several tokens may share."""
    from tinylm.embedding.source import read_vectors, vector_file

    words = {index: word for index in range(len(tokenizer)) if (word := tokenizer.word_of(index))}
    places = {word: place for place, word in enumerate(dict.fromkeys(words.values()))}
    table, known, info = read_vectors(vector_file(settings), list(places), settings.width)
    ids, rows = list(words), [places[word] for word in words.values()]
    matrix[ids], covered[ids] = table[rows], known[rows]
    return info
