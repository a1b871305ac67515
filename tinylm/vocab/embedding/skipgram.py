"""Skip-gram word vectors with character n-grams, trained by fastText.

Bojanowski et al. 2017, "Enriching Word Vectors with Subword Information". One thread, because only
then is the update order reproducible. fastText 0.9.3, and fasttext-modern 0.10.0, which compiles
the same sources, initialise the first tenth of the input matrix and leave the rest as the allocator
returns it (fastText's issue 1061): zeros in a fresh process, anything later. Here the allocator
returns zeros during training, so that equal input gives equal bytes.
"""

import contextlib
import ctypes
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tinylm.base.config import InputError
from tinylm.base.seeding import derive_seed
from tinylm.vocab.embedding.settings import SEED

EPOCHS = 1
WINDOW = 3  # neighbours on each side: for each word a number up to this is drawn
NEGATIVES = 5
MIN_N = 3  # shortest and longest character n-grams of a word
MAX_N = 6
BUCKETS = 20_000  # hash buckets of character n-grams
LR = 0.05
LINE_END = "</s>"  # fastText's word for it, which has no n-grams: its vector is always initialised
CHECKED_WIDTH = 16  # width of the vector that check_fasttext trains
NO_LABEL = " "  # words that begin with it are labels for fastText: no word has a space
M_PERTURB = -6  # glibc, mallopt(3): the complement of the value fills what malloc returns


@contextlib.contextmanager
def zeroed_memory() -> Iterator[None]:
    """glibc's malloc returns zeroed memory inside the block; without glibc nothing changes."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        yield
        return
    mallopt(M_PERTURB, 0xFF)
    try:
        yield
    finally:
        mallopt(M_PERTURB, 0)


def _fasttext_arguments(path: Path, width: int, seed: int) -> Any:
    """fastText's own argument object: `fasttext.train_unsupervised` does not pass the seed on."""
    import fasttext_pybind

    arguments = fasttext_pybind.args()
    arguments.model = fasttext_pybind.model_name.skipgram
    arguments.loss = fasttext_pybind.loss_name.ns
    arguments.input = str(path)
    arguments.dim = width
    arguments.epoch = EPOCHS
    arguments.ws = WINDOW
    arguments.neg = NEGATIVES
    arguments.minn = MIN_N
    arguments.maxn = MAX_N
    arguments.bucket = BUCKETS
    arguments.lr = LR
    arguments.seed = derive_seed(seed, "skipgram") % (1 << 31)
    arguments.label = NO_LABEL
    arguments.minCount = 1
    arguments.thread = 1
    arguments.verbose = 0
    return arguments


def check_fasttext() -> None:
    """Raise InputError if the installed fastText scales vectors to length 1.

    Other distributions install modules of the same name; fasttext-community returns unit vectors.
    An untrained vector shows the difference: its values are at most 1 / width, so its length is at
    most 1 / sqrt(width).
    """
    import fasttext_pybind

    model = fasttext_pybind.fasttext()
    vector = fasttext_pybind.Vector(CHECKED_WIDTH)
    with tempfile.TemporaryDirectory(prefix="tinylm-") as folder:
        path = Path(folder) / "word.txt"
        path.write_text("word\n", encoding="utf-8")
        arguments = _fasttext_arguments(path, CHECKED_WIDTH, SEED)
        arguments.epoch = 0
        arguments.loss = fasttext_pybind.loss_name.softmax  # needs no table of negatives
        with zeroed_memory():
            fasttext_pybind.train(model, arguments)
    model.getWordVector(vector, LINE_END)
    if np.linalg.norm(np.array(vector)) > 0.99:
        raise InputError(
            "embedding.source = skipgram: expected a fastText that returns vectors as trained "
            "(fasttext-modern), got one that scales them to length 1 (as fasttext-community does)"
        )


def train_skipgram(
    texts: Iterable[str], words: Sequence[str], width: int, seed: int = SEED
) -> np.ndarray:
    """Train on normalised texts and return the vectors of `words`, (len(words), D) float32.

    A word that is not in the texts and has no known character n-grams gets zeros. Raises InputError
    if training diverges, or if `check_fasttext` does.
    """
    import fasttext_pybind

    check_fasttext()
    model = fasttext_pybind.fasttext()
    vector = fasttext_pybind.Vector(width)
    with tempfile.TemporaryDirectory(prefix="tinylm-") as folder:
        path = Path(folder) / "train.txt"
        with open(path, "w", encoding="utf-8", newline="\n") as handle:
            handle.writelines(text + "\n" for text in texts)
        try:
            with zeroed_memory():
                fasttext_pybind.train(model, _fasttext_arguments(path, width, seed))
        except (RuntimeError, ValueError) as error:  # "Encountered NaN.", "Empty vocabulary."
            raise InputError(
                f"embedding.source = skipgram: fastText failed ({error}); "
                "use embedding.source = counts"
            ) from None
    matrix = np.zeros((len(words), width), np.float32)
    for index, word in enumerate(words):
        model.getWordVector(vector, word)
        matrix[index] = np.array(vector)
    if not np.isfinite(matrix).all():
        raise InputError(
            "embedding.source = skipgram: expected finite vectors, got NaN or infinity; use embedding.source = counts"
        )
    return matrix
