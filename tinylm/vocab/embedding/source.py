"""Files of word vectors: which one the settings name, and the text format `.vec` or `.vec.gz`.

The text format has a line "count width", then a line per word. It is read as a stream, and only the
rows that the vocabulary needs are stored.
"""

import gzip
import os
import unicodedata
import zlib
from codecs import BOM_UTF8
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tinylm.base.config import InputError
from tinylm.base.hub import reading_hub, split_hub
from tinylm.base.printable import first_line
from tinylm.vocab.embedding.fasttext_bin import BinFile, read_bin
from tinylm.vocab.embedding.settings import EmbeddingSettings

SUFFIXES = (".bin", ".vec", ".vec.gz")
LARGEST = 1e15  # of a vector: squares of larger numbers overflow when they are added


def vector_file(settings: EmbeddingSettings) -> Path:
    """The file that the settings name, from the hub if `hub` is given. Raises InputError.

    A hub repository has one file of vectors; `.bin` comes before `.vec` and that before `.vec.gz`.
    """
    if settings.hub is None:
        return Path(settings.path)
    hub_id, revision = split_hub(settings.hub)
    import huggingface_hub

    keys = f"embedding.hub = {settings.hub}"
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
    raise InputError(f"{keys}: expected one file of vectors ({', '.join(SUFFIXES)}), got {listed}")


def _is_binary(path: Path) -> bool:
    """Whether a file is in the binary format, by its name. InputError for what is no such file."""
    if not os.path.isfile(path):  # unlike Path.is_file it treats a name that is too long as missing
        raise InputError(
            f"embedding.path: expected a file of vectors, got {str(path)!r}, which does not exist"
        )
    name = path.name.lower()
    if not name.endswith(SUFFIXES):
        raise InputError(f"{path}: expected a file that ends in {', '.join(SUFFIXES)}")
    return name.endswith(".bin")


def check_vectors(path: Path, width: int) -> None:
    """Raise InputError if the file's header shows that it has no vectors of this width."""
    if _is_binary(path):
        BinFile(path, width)
    else:
        _read_header(path, _raw_lines(path), width)


def read_vectors(path: Path, words: Sequence[str], width: int) -> tuple[np.ndarray, np.ndarray]:
    """((N, D) float32 of N different words, (N,) bool: which of them the file has as words).

    For words that the file lacks see `BinFile.vector` and `read_vec`; a vector may be zero. Raises
    InputError, also if no word has any.
    """
    read = read_bin if _is_binary(path) else read_vec
    table, is_listed = read(path, words, width)
    is_usable = (np.abs(table) <= LARGEST).all(axis=1)  # false for nan
    if not is_usable.all():
        word = words[int(np.argmin(is_usable))]
        value = table[words.index(word)].max()
        raise InputError(f"{path}: {word!r}: expected numbers up to {LARGEST:g}, got {value:g}")
    if not table.any():
        raise InputError(f"{path}: contains none of the vocabulary's {len(words)} words")
    return table, is_listed


def _raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(line number, line) of a plain or gzip file. Raises InputError if it is damaged."""
    number = 0
    is_gzip = path.name.lower().endswith(".gz")
    try:
        with gzip.open(path) if is_gzip else open(path, "rb") as handle:
            for number, line in enumerate(handle, start=1):
                yield number, line
    except (EOFError, OSError, zlib.error) as error:
        reason = first_line(error)
        raise InputError(f"{path} cannot be read after line {number}: {reason}") from None


def _read_header(path: Path, lines: Iterator[tuple[int, bytes]], width: int) -> int:
    """The promised number of rows. InputError if this is no header or of another width."""
    _, line = next(lines, (1, b""))
    try:
        rows, columns = map(int, line.removeprefix(BOM_UTF8).split())
    except ValueError:
        raise InputError(f"{path}, line 1: expected 'count width', got {line[:40]!r}") from None
    if columns != width:
        raise InputError(
            f"{path}, line 1: expected vectors of embedding.width = {width}, got width {columns}"
        )
    return rows


def read_vec(path: Path, words: Sequence[str], width: int) -> tuple[np.ndarray, np.ndarray]:
    """As `read_vectors`; zero where the file has no vector. Raises InputError with the line.

    A word gets the file's first row of that word. If there is none, it gets the first row of a word
    that is the same in composed letters (Unicode's NFC), or else of one that also differs in upper
    and lower case ("Paris" for "paris", "the" for "The").
    """
    wanted: dict[str, list[str]] = defaultdict(list)
    for word in words:
        wanted[word.lower()].append(word)
    exact: dict[str, np.ndarray] = {}
    composed: dict[str, np.ndarray] = {}
    in_other_case: dict[str, np.ndarray] = {}
    lines = _raw_lines(path)
    promised = _read_header(path, lines, width)
    number = 1
    for number, line in lines:
        line = line.rstrip()
        if line.count(b" ") != width:
            raise InputError(f"{path}, line {number}: expected a word and {width} values")
        first, *values = line.split(b" ")
        written = first.decode("utf-8", "replace")
        word = unicodedata.normalize("NFC", written)
        for target in wanted.get(word.lower(), ()):
            vectors = in_other_case
            if target == word:
                vectors = exact if target == written else composed
            if target not in vectors and target not in exact:
                vectors[target] = _parse(values, path, number)
    if number != promised + 1:
        raise InputError(f"{path}: expected {promised} rows after line 1, got {number - 1}")
    table = np.zeros((len(words), width), np.float32)
    vectors = in_other_case | composed | exact
    for row, word in enumerate(words):
        if word in vectors:
            table[row] = vectors[word]
    return table, np.array([word in vectors for word in words], bool)


def _parse(values: list[bytes], path: Path, number: int) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):
            row = np.array([float(value) for value in values]).astype(np.float32)
    except ValueError:
        row = np.full(1, np.nan)
    if not np.isfinite(row).all():
        raise InputError(f"{path}, line {number}: expected values that are finite in float32")
    return row
