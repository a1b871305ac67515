"""Files of word vectors: which one the settings name, and the reader for its name."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tinylm.base.config import InputError
from tinylm.download.folders import reading_hub
from tinylm.embedding.fasttext_bin import open_bin, read_bin
from tinylm.embedding.settings import EmbeddingSettings
from tinylm.embedding.vec_file import check_vec, read_vec

SUFFIXES = (".bin", ".vec", ".vec.gz")
ALLOWED = "allowed: .vec, .vec.gz or .bin"


def vector_file(settings: EmbeddingSettings) -> Path:
    """The file that the settings name, from the hub if hub_id is given. Raises InputError.

    A hub repository has one file of vectors; `.bin` comes before `.vec` and that before `.vec.gz`.
    """
    hub_id = settings.hub_id
    revision = settings.hub_revision
    if hub_id is None:
        return Path(settings.path)
    import huggingface_hub

    keys = f"embedding.hub_id = {hub_id!r}, revision {revision!r}"
    with reading_hub(keys, "embedding.path"):
        info = huggingface_hub.HfApi().model_info(hub_id, revision=revision)
        names = [file.rfilename for file in info.siblings or []]
        for suffix in SUFFIXES:
            files = [name for name in names if name.lower().endswith(suffix)]
            if files:
                break
        if len(files) == 1:
            return Path(huggingface_hub.hf_hub_download(hub_id, files[0], revision=revision))
    listed = ", ".join(files[:5]) or "none"
    raise InputError(f"{keys}: files of vectors: {listed}; {ALLOWED}, one of a kind")


def _is_binary(path: Path) -> bool:
    """Whether a file is in the binary format, by its name. InputError for what is no such file."""
    if not os.path.isfile(path):  # unlike Path.is_file it treats a name that is too long as missing
        raise InputError(f"embedding.path = {str(path)!r}: no such file; {ALLOWED}")
    name = path.name.lower()
    if not name.endswith(SUFFIXES):
        raise InputError(f"{path}: not a supported format of vectors; {ALLOWED}, not packed")
    return name.endswith(".bin")


def check_vectors(path: Path, width: int) -> None:
    """Raise InputError if the file's header shows that it has no vectors of this width."""
    if _is_binary(path):
        open_bin(path, width)
    else:
        check_vec(path, width)


def read_vectors(path: Path, words: Sequence[str], width: int) -> np.ndarray:
    """(N, D) float32 of N different words; zero where the file has no vector.

    For unknown words see `read_bin` and `read_vec`. Raises InputError, also if no word has any.
    """
    read = read_bin if _is_binary(path) else read_vec
    table = read(path, words, width)
    if not table.any():
        raise InputError(f"{path}: has none of the vocabulary's {len(words)} words")
    return table
