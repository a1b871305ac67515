"""Token stores: one split's ids on disk, read through a memory map.

`{split}.ids` contains all stories end to end (`<sos> w w <eos> <sos> ...`), little-endian uint16 if the
vocabulary has at most 65,536 entries, otherwise uint32; `{split}.offsets` contains n + 1 int64 story starts;
`{split}.json` contains the counts and both files' SHA-256, and is written last.
"""

import functools
import hashlib
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
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
COUNT_CHUNK = 1 << 21
WRITTEN_STORIES = 256

Stream = tuple[
    np.ndarray, np.ndarray
]  # ids of several stories end to end (N,), tokens of each story


def id_type(vocab_size: int) -> np.dtype:
    """Smallest of uint16 and uint32 that can hold ids 0 ... vocab_size - 1."""
    return np.dtype("<u2" if vocab_size <= 1 << 16 else "<u4")


def write_blocks(
    folder: str | Path, split: str, blocks: Iterable[Stream], vocab_size: int
) -> dict[str, Any]:
    """Write the ids of many stories at a time, end to end: (ids, tokens of each story) per block.

    Ordinary writes and no memory map, so that a full disk is an OSError. Returns {stories, tokens, ...}, as stored in
    `{split}.json`. Raises ValueError for an id outside the vocabulary.
    """
    dtype = id_type(vocab_size)
    ids_path, offsets_path = (Path(folder) / f"{split}.{kind}" for kind in ("ids", "offsets"))
    lengths = [np.zeros(1, dtype=np.int64)]
    summed = hashlib.sha256()
    with atomic_write(ids_path, "wb") as handle:
        for ids, tokens in blocks:
            if ids.size and not 0 <= ids.min() <= ids.max() < vocab_size:
                first = np.flatnonzero((ids < 0) | (ids >= vocab_size))[0]
                story = (
                    sum(map(len, lengths))
                    - 1
                    + int(np.searchsorted(np.cumsum(tokens), first, "right"))
                )
                raise ValueError(f"story {story} holds an id outside 0 to {vocab_size - 1}")
            content = np.ascontiguousarray(ids, dtype).data
            handle.write(content)
            summed.update(content)
            lengths.append(np.asarray(tokens, dtype=np.int64))
    offsets = np.cumsum(np.concatenate(lengths))
    write_bytes(offsets_path, offsets.astype("<i8").tobytes())
    info = {
        "stories": len(offsets) - 1,
        "tokens": int(offsets[-1]),
        "vocab_size": vocab_size,
        "dtype": dtype.name,
        "ids_sha256": summed.hexdigest(),
        "offsets_sha256": sha256(offsets_path),
    }
    write_json(Path(folder) / f"{split}.json", info)
    return info


def as_stream(stories: Iterable[Sequence[int] | np.ndarray]) -> Stream:
    """The ids of several stories end to end, (N,) int64, and the tokens of each."""
    arrays = [np.asarray(story, dtype=np.int64) for story in stories]
    return np.concatenate([np.empty(0, np.int64), *arrays]), np.array(
        [len(ids) for ids in arrays], dtype=np.int64
    )


def write_store(
    folder: str | Path, split: str, stories: Iterable[Sequence[int] | np.ndarray], vocab_size: int
) -> dict[str, Any]:
    """Write the stories, each exactly as given (`Tokenizer.encode_story`), as they come. See `write_blocks`."""
    rest = iter(stories)
    groups = iter(lambda: list(itertools.islice(rest, WRITTEN_STORIES)), [])
    return write_blocks(folder, split, map(as_stream, groups), vocab_size)


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
        try:
            tokens, stories = int(info["tokens"]), int(info["stories"])
            self.vocab_size = int(info["vocab_size"])
            hashes = {"ids": str(info["ids_sha256"]), "offsets": str(info["offsets_sha256"])}
        except (KeyError, TypeError, ValueError, OverflowError):
            raise InputError(
                f"{base / split}.json: not part of a token store; run dvc repro -f -s {STAGE}"
            ) from None
        for kind, expected in hashes.items():
            _check(base / f"{split}.{kind}", expected)
        self.offsets = np.fromfile(base / f"{split}.offsets", dtype="<i8")
        self._ids_path = ids_path = base / f"{split}.ids"
        dtype = id_type(self.vocab_size)
        if len(self.offsets) != stories + 1 or ids_path.stat().st_size != tokens * dtype.itemsize:
            raise InputError(
                f"{base / split}.json: does not fit its files; run dvc repro -f -s {STAGE}"
            )
        self.ids: np.ndarray = (
            np.memmap(ids_path, dtype=dtype, mode="r") if tokens else np.empty(0, dtype)
        )
        spans = (
            self.offsets[0] == 0
            and self.offsets[-1] == tokens
            and (np.diff(self.offsets) >= 0).all()
        )
        if not spans or any(ids.max() >= self.vocab_size for _, ids in self.pieces()):
            raise InputError(
                f"{base / split}.ids: an id or a border out of bounds; run dvc repro -f -s {STAGE}"
            )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def pieces(self) -> Iterator[tuple[int, np.ndarray]]:
        """(place of the first, ids) of all ids, read and not mapped: pages of a map would stay in memory."""
        with open(self._ids_path, "rb") as handle:
            for start in range(0, len(self.ids), COUNT_CHUNK):
                yield start, np.fromfile(handle, self.ids.dtype, COUNT_CHUNK)

    def story(self, index: int) -> np.ndarray:
        """Ids of one story, a view into the memory map."""
        return self.ids[self.offsets[index] : self.offsets[index + 1]]


def coverage(store: TokenStore, unk_id: int | None, marks: Collection[int]) -> dict[str, Any]:
    """Running words of a split, how many are `<unk>`, the shares known and unknown, and words per story.

    marks: ids that are not words (`<sos> <eos>`), which do not count; without unk_id every word is known.
    """
    unknown, lengths = 0, np.diff(store.offsets)
    for start, ids in store.pieces():
        unknown += 0 if unk_id is None else int(np.count_nonzero(ids == unk_id))
        places = start + np.flatnonzero(np.isin(ids, list(marks)))
        owners = np.searchsorted(store.offsets, places, "right") - 1
        if len(owners):
            first = owners[0]
            lengths[first : owners[-1] + 1] -= np.bincount(owners - first)
    words = int(lengths.sum())
    share = unknown / words if words else 0.0
    mean, median = (float(of(lengths)) if len(lengths) else 0.0 for of in (np.mean, np.median))
    return {
        "words": words,
        "unknown": unknown,
        "unknown_share": share,
        "coverage": 1.0 - share,
        "sequence_length": {
            "mean": round(mean, 3),
            "median": median,
            "largest": int(lengths.max(initial=0)),
        },
    }
