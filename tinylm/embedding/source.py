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


def _is_binary(path: Path) -> bool:
    """Whether the file's name is of the binary format; InputError for the name of an unknown format."""
    name = path.name.lower()
    if name.endswith(BINARY + TEXT):
        return name.endswith(BINARY)
    unpack = "; unpack it first" if name.endswith((".bin.gz", ".zip")) else ""
    raise InputError(f"{path}: not a supported format of vectors; {ALLOWED}{unpack}")


def _hub_file(hub_id: str, revision: str | None) -> Path:
    """A hub repository's one file of vectors, fetched into the hub's cache; `.bin` before `.vec` before `.vec.gz`."""
    import huggingface_hub

    where = f"embedding.hub_id = {hub_id!r}, revision {revision!r}"
    try:
        info = huggingface_hub.HfApi().model_info(hub_id, revision=revision, timeout=HUB_TIMEOUT_S)
        names = [file.rfilename for file in info.siblings or []]
        kinds = [
            [name for name in names if name.lower().endswith(suffix)] for suffix in (".bin", *TEXT)
        ]
        found = next(filter(None, kinds), [])
        path = (
            huggingface_hub.hf_hub_download(hub_id, found[0], revision=revision)
            if len(found) == 1
            else ""
        )
    except Exception as error:  # offline mode, no network, no such id or revision, refused, cut off
        reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}"
        raise InputError(
            f"{where}: the hub cannot be read ({reason}); check both, or fetch the file and name it in embedding.path"
        ) from None
    if not path:
        held = ", ".join(found[:5]) or "none"
        raise InputError(
            f"{where}: files of vectors: {held}; allowed: one {ALLOWED.removeprefix('allowed: ')}"
        )
    return Path(path)


def vector_file(settings: EmbeddingSettings) -> Path:
    """The file that the settings name, from the hub if hub_id is given. Raises InputError if there is none."""
    if settings.hub_id is not None:
        return _hub_file(settings.hub_id, settings.hub_revision)
    return Path(settings.path)


def _readable(path: Path) -> bool:
    """Whether the file is binary; InputError if it is not a file (a pipe would never end) or has no known name."""
    if not os.path.isfile(path):  # unlike Path.is_file it treats a name that is too long as missing
        what = "no regular file" if os.path.exists(path) else "no such file"
        raise InputError(f"embedding.path = {str(path)!r}: {what}; {ALLOWED}")
    return _is_binary(path)


def check_vectors(path: Path, width: int) -> None:
    """Raise InputError if header and size show that the file does not have vectors of this width."""
    try:
        (check_bin if _readable(path) else check_vec)(path, width)
    except OSError as error:
        raise InputError(
            f"embedding.path = {str(path)!r}: cannot be read: {error.strerror or error}"
        ) from None


def read_vectors(
    path: Path, words: Sequence[str], width: int
) -> tuple[np.ndarray, np.ndarray, dict]:
    """((N, D) float32, (N,) covered, {"from_subwords": of .bin, "warnings"}) of N different words.

    For unknown words see `read_bin` and `read_vec`. Raises InputError, also if no word is covered.
    """
    table = np.zeros((len(words), width), dtype=np.float32)
    covered: np.ndarray = np.zeros(len(words), dtype=bool)
    try:
        if _readable(path):
            composed, warnings = read_bin(path, words, table, covered)
            info = {"from_subwords": composed, "warnings": warnings}
        else:
            info = {"warnings": read_vec(path, words, table, covered)}
    except OSError as error:
        raise InputError(
            f"embedding.path = {str(path)!r}: cannot be read: {error.strerror or error}"
        ) from None
    if not covered.any():
        raise InputError(f"{path}: has none of the vocabulary's {len(words)} words")
    return table, covered, info
