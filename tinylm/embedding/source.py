"""Files of word vectors: which one the settings name, and the reader for its name."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tinylm.base.config import InputError
from tinylm.embedding.fasttext_bin import check_bin, read_bin
from tinylm.embedding.settings import EmbeddingSettings
from tinylm.embedding.vec_file import check_vec, read_vec

HUB_TIMEOUT_S = 10.0
BINARY = (".bin", ".ftz")  # the second is refused with its reason
TEXT = (".vec", ".vec.gz")
ALLOWED = "allowed: .vec, .vec.gz or .bin"


def vector_file(settings: EmbeddingSettings) -> Path:
    """The file that the settings name, from the hub if hub_id is given. Raises InputError."""
    if settings.hub_id is None:
        return Path(settings.path)
    return _hub_file(settings.hub_id, settings.hub_revision)


def _hub_file(hub_id: str, revision: str | None) -> Path:
    """A hub repository's one file of vectors; `.bin` before `.vec` before `.vec.gz`."""
    import huggingface_hub

    where = f"embedding.hub_id = {hub_id!r}, revision {revision!r}"
    try:
        info = huggingface_hub.HfApi().model_info(hub_id, revision=revision, timeout=HUB_TIMEOUT_S)
        names = [file.rfilename for file in info.siblings or []]
        files: list[str] = []
        for suffix in (".bin", *TEXT):
            files = files or [name for name in names if name.lower().endswith(suffix)]
        if len(files) == 1:
            return Path(huggingface_hub.hf_hub_download(hub_id, files[0], revision=revision))
    except Exception as error:  # offline, no network, no such id or revision, refused, cut off
        lines = str(error).splitlines() or [""]
        raise InputError(
            f"{where}: the hub cannot be read ({type(error).__name__}: {lines[0][:160]}); check "
            "both, or download the file and name it in embedding.path"
        ) from None
    listed = ", ".join(files[:5]) or "none"
    raise InputError(f"{where}: files of vectors: {listed}; {ALLOWED.replace(':', ': one')}")


def _is_binary(path: Path) -> bool:
    """Whether a file is in the binary format, by its name. InputError for other names.

    What is not a file is refused too: a pipe would never end.
    """
    if not os.path.isfile(path):  # unlike Path.is_file it treats a name that is too long as missing
        what = "no regular file" if os.path.exists(path) else "no such file"
        raise InputError(f"embedding.path = {str(path)!r}: {what}; {ALLOWED}")
    name = path.name.lower()
    if not name.endswith(BINARY + TEXT):
        unpack = "; unpack it first" if name.endswith((".bin.gz", ".zip")) else ""
        raise InputError(f"{path}: not a supported format of vectors; {ALLOWED}{unpack}")
    return name.endswith(BINARY)


def _unreadable(path: Path, error: OSError) -> InputError:
    reason = error.strerror or error
    return InputError(f"embedding.path = {str(path)!r}: cannot be read: {reason}")


def check_vectors(path: Path, width: int) -> None:
    """Raise InputError if header and size show that the file has no vectors of this width."""
    check = check_bin if _is_binary(path) else check_vec
    try:
        check(path, width)
    except OSError as error:
        raise _unreadable(path, error) from None


def read_vectors(
    path: Path, words: Sequence[str], width: int
) -> tuple[np.ndarray, np.ndarray, dict]:
    """((N, D) float32, (N,) covered, {"from_subwords": of .bin}) of N different words.

    For unknown words see `read_bin` and `read_vec`. Raises InputError, also if no word is covered.
    """
    table = np.zeros((len(words), width), dtype=np.float32)
    covered: np.ndarray = np.zeros(len(words), dtype=bool)
    info = {}
    try:
        if _is_binary(path):
            info["from_subwords"] = read_bin(path, words, table, covered)
        else:
            read_vec(path, words, table, covered)
    except OSError as error:
        raise _unreadable(path, error) from None
    if not covered.any():
        raise InputError(f"{path}: has none of the vocabulary's {len(words)} words")
    return table, covered, info
