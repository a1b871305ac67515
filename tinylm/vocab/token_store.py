"""Token stores: one split's ids on disk, read through a memory map.

`{split}.ids` has all stories end to end (`<sos> w w <eos> <sos> ...`), little-endian uint16 if the
vocabulary has at most 65,536 entries, otherwise uint32; `{split}.offsets` has n + 1 int64 story
starts; `{split}.json` has the counts and both files' SHA-256, and is written last.
"""

import functools
import hashlib
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tinylm.base.config import InputError
from tinylm.base.files import (
    atomic_write,
    check_sha256,
    read_json,
    require,
    sha256,
    write_bytes,
    write_json,
)

STAGE = "vocab"
AGAIN = f"run dvc repro -f -s {STAGE}"
STORIES_AT_ONCE = 20_000

Stream = tuple[np.ndarray, np.ndarray]  # ids of several stories end to end (N,), tokens of each


def id_type(vocab_size: int) -> np.dtype:
    """Smallest of uint16 and uint32 that can hold ids 0 ... vocab_size - 1."""
    return np.dtype("<u2" if vocab_size <= 1 << 16 else "<u4")


def as_stream(stories: Sequence[Sequence[int] | np.ndarray]) -> Stream:
    """The ids of several stories end to end, (N,) int64, and the tokens of each."""
    lengths = np.array([len(ids) for ids in stories], dtype=np.int64)
    arrays = [np.asarray(ids, dtype=np.int64) for ids in stories]
    return np.concatenate([np.empty(0, np.int64), *arrays]), lengths


def write_blocks(
    folder: str | Path, split: str, blocks: Iterable[Stream], vocab_size: int
) -> dict[str, Any]:
    """Write the ids of many stories at a time, end to end: (ids, tokens of each story) per block.

    Returns what `{split}.json` has: stories, tokens and so on. Raises ValueError for an id outside
    the vocabulary.
    """
    dtype = id_type(vocab_size)
    ids_path = Path(folder) / f"{split}.ids"
    offsets_path = Path(folder) / f"{split}.offsets"
    lengths = [np.zeros(1, dtype=np.int64)]
    digest = hashlib.sha256()
    with atomic_write(ids_path, "wb") as handle:
        for ids, tokens in blocks:
            if ids.size and not 0 <= ids.min() <= ids.max() < vocab_size:
                raise ValueError(f"{ids_path}: an id is outside 0 to {vocab_size - 1}")
            content = np.ascontiguousarray(ids, dtype).data
            handle.write(content)
            digest.update(content)
            lengths.append(np.asarray(tokens, dtype=np.int64))
    offsets = np.cumsum(np.concatenate(lengths))
    write_bytes(offsets_path, offsets.astype("<i8").tobytes())
    info = {
        "stories": len(offsets) - 1,
        "tokens": int(offsets[-1]),
        "vocab_size": vocab_size,
        "dtype": dtype.name,
        "ids_sha256": digest.hexdigest(),
        "offsets_sha256": sha256(offsets_path),
    }
    write_json(Path(folder) / f"{split}.json", info)
    return info


def write_store(
    folder: str | Path, split: str, stories: Iterable[Sequence[int] | np.ndarray], vocab_size: int
) -> dict[str, Any]:
    """Write the stories, each exactly as given (`Tokenizer.encode_story`). See `write_blocks`."""
    return write_blocks(folder, split, (as_stream([story]) for story in stories), vocab_size)


@functools.lru_cache(maxsize=64)
def _check_once(path: Path, expected: str, size: int, modified_ns: int) -> None:
    check_sha256(path, expected, STAGE)


def _check(path: Path, expected: str) -> None:
    state = require(path, STAGE).stat()
    _check_once(path.resolve(), expected, state.st_size, state.st_mtime_ns)


class TokenStore:
    """One split, opened for reading; its bytes are checked against their SHA-256 once per process.

    `ids`: memory map (N,) of uint16 or uint32; `offsets`: (n + 1,) int64, where each story starts.
    Raises InputError naming the file and the stage that makes it.
    """

    def __init__(self, folder: str | Path, split: str):
        base = Path(folder)
        info = read_json(base / f"{split}.json", STAGE)
        ids_path = base / f"{split}.ids"
        offsets_path = base / f"{split}.offsets"
        try:
            self.vocab_size = int(info["vocab_size"])
            _check(ids_path, info["ids_sha256"])
            _check(offsets_path, info["offsets_sha256"])
        except (KeyError, TypeError, ValueError, OverflowError):
            raise InputError(f"{base / split}.json: not part of a token store; {AGAIN}") from None
        dtype = id_type(self.vocab_size)
        self.offsets = np.fromfile(offsets_path, dtype="<i8")
        self.ids: np.ndarray = np.empty(0, dtype)
        size = ids_path.stat().st_size // dtype.itemsize
        if size:
            self.ids = np.memmap(ids_path, dtype=dtype, mode="r", shape=(size,))
        ends = self.offsets[:1].tolist() + self.offsets[-1:].tolist()
        if ends != [0, len(self.ids)] or (np.diff(self.offsets) < 0).any():
            raise InputError(f"{offsets_path}: does not fit its ids; {AGAIN}")
        if self.ids.max(initial=0) >= self.vocab_size:
            raise InputError(f"{ids_path}: an id is outside the vocabulary; {AGAIN}")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def story(self, index: int) -> np.ndarray:
        """Ids of one story, a view into the memory map."""
        return self.ids[self.offsets[index] : self.offsets[index + 1]]


def coverage(store: TokenStore, unk_id: int | None, marks: Collection[int]) -> dict[str, Any]:
    """Running words of a split, how many are `<unk>`, the shares, and words per story.

    marks: ids that are not words (`<sos> <eos>`), which do not count; without unk_id every word is
    known.
    """
    unknown = 0
    lengths = np.zeros(len(store), dtype=np.int64)
    for first in range(0, len(store), STORIES_AT_ONCE):
        last = min(first + STORIES_AT_ONCE, len(store))
        starts = store.offsets[first : last + 1]
        ids = store.ids[starts[0] : starts[-1]]
        words_before = np.cumsum(np.append(0, ~np.isin(ids, list(marks))))
        lengths[first:last] = np.diff(words_before[starts - starts[0]])
        if unk_id is not None:
            unknown += int(np.count_nonzero(ids == unk_id))
    words = int(lengths.sum())
    share = unknown / words if words else 0.0
    return {
        "words": words,
        "unknown": unknown,
        "unknown_share": share,
        "coverage": 1.0 - share,
        "sequence_length": {
            "mean": round(float(lengths.mean()), 3) if words else 0.0,
            "median": float(np.median(lengths)) if words else 0.0,
            "largest": int(lengths.max(initial=0)),
        },
    }
