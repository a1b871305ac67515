"""Word vectors: the (V, D) embedding matrix by skip-gram, from counts, from a file or at random.

In every matrix `<pad>` is zero (if it has its own id). The other special tokens, and tokens without
a vector, are random rows with the scale of the other rows. With counts, all tokens that occur have
a vector.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from tinylm.base.seeding import derive_seed
from tinylm.vocab.embedding.settings import SEED, EmbeddingSettings
from tinylm.vocab.tokenizer import Tokenizer

MAX_TOKENS = 20_000_000  # from which vectors are made: with skip-gram, some minutes on one core
Texts = Callable[[], Iterable[str]]
Ids = Callable[[], np.ndarray]


def embedding_matrix(
    settings: EmbeddingSettings,
    tokenizer: Tokenizer,
    texts: Texts,
    ids: Ids,
    seed: int = SEED,
) -> tuple[np.ndarray, dict[str, Any]]:
    """((V, D) float32 matrix, its sources: words, covered, coverage, standard deviation).

    `words` counts the tokens that are text. With skip-gram, `covered` counts those of them that
    occur in the training text; the vector that fastText composes for any other was never trained.
    With a file it counts those that the file has as words, and `composed`, where there are any, those
    whose vectors are made of their n-grams.
    `texts` gives the train split's stories, raw or normalised, for skip-gram; `ids` its token ids.
    Of more than `MAX_TOKENS`, skip-gram reads every k-th story and counts the first ones; then
    `read` is the share of the tokens that was read. Raises InputError for a file that does not fit.
    """
    size = len(tokenizer)
    text_ids = [index for index in range(size) if index not in tokenizer.specials]
    matrix = np.zeros((size, settings.width), np.float32)
    counted = np.isin(np.arange(size), text_ids)  # the tokens that `covered` may count
    info: dict[str, Any] = {"source": settings.source, "width": settings.width}
    if settings.source == "skipgram":
        every = max(math.ceil(len(ids()) / MAX_TOKENS), 1)
        info["read"] = 1 / every
        texts_read = islice(texts(), 0, None, every)
        counted = _train(settings.width, tokenizer, texts_read, text_ids, matrix, seed)
    elif settings.source == "counts":
        from tinylm.vocab.embedding.counts import WINDOW, count_vectors

        read = ids()[:MAX_TOKENS]
        info["read"] = len(read) / max(len(ids()), 1)
        vectors = count_vectors(read, size, settings.width, WINDOW, seed)
        matrix = vectors * np.float32(settings.std)
    elif settings.source == "file":
        counted = _look_up(settings, tokenizer, matrix)
    has_vector = np.any(matrix, axis=1)
    if settings.source == "file" and (composed := int((has_vector & ~counted).sum())):
        info["composed"] = composed
    info["words"] = len(text_ids)
    if settings.source != "random":
        info["covered"] = int((has_vector & counted).sum())
        info["coverage"] = info["covered"] / len(text_ids) if text_ids else 0.0
    matrix = _with_random_rows(matrix, has_vector, settings.std, seed)
    other_roles = {tokenizer.sos_id, tokenizer.eos_id, tokenizer.unk_id}
    if tokenizer.pad_id in tokenizer.specials - other_roles:
        matrix[tokenizer.pad_id] = 0.0
    info["std"] = round(float(matrix.std()), 6)
    return matrix, info


def _with_random_rows(
    matrix: np.ndarray, has_vector: np.ndarray, std: float, seed: int
) -> np.ndarray:
    """The matrix with random rows for tokens without a vector, as large as the other rows.

    has_vector: (V,) bool. std: the scale if no token has a vector.
    """
    if has_vector.any():
        std = float(matrix[has_vector].std()) or std
    generator = np.random.default_rng(derive_seed(seed, "embedding"))
    drawn = generator.normal(0.0, std, size=matrix.shape).astype(np.float32)
    return np.where(has_vector[:, None], matrix, drawn)


def _train(
    width: int,
    tokenizer: Tokenizer,
    texts: Iterable[str],
    text_ids: list[int],
    matrix: np.ndarray,
    seed: int,
) -> np.ndarray:
    """Fill the rows of the tokens that are text, by skip-gram. (V,): which of them occur."""
    from tinylm.vocab.embedding.skipgram import train_skipgram

    words = [tokenizer.tokens[index] for index in text_ids]
    seen: set[str] = set()

    def lines() -> Iterator[str]:
        for text in texts:
            pieces = tokenizer.split(text)
            seen.update(pieces)
            yield " ".join(pieces)

    matrix[text_ids] = train_skipgram(lines(), words, width, seed)
    occurs = np.zeros(len(tokenizer), dtype=bool)
    occurs[text_ids] = [word in seen for word in words]
    return occurs


def _look_up(settings: EmbeddingSettings, tokenizer: Tokenizer, matrix: np.ndarray) -> np.ndarray:
    """Fill rows from a file of vectors by each token's bare word, which several may share.

    Returns (V,) bool: the tokens whose words the file has.
    """
    from tinylm.vocab.embedding.source import read_vectors, vector_file

    words = list(map(tokenizer.word_of, range(len(tokenizer))))
    different = [word for word in dict.fromkeys(words) if word]
    table, is_listed = read_vectors(vector_file(settings), different, settings.width)
    has_word = np.zeros(len(tokenizer), dtype=bool)
    row_of = {word: row for row, word in enumerate(different)}
    for index, word in enumerate(words):
        if word:
            matrix[index] = table[row_of[word]]
            has_word[index] = is_listed[row_of[word]]
    return has_word
