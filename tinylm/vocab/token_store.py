"""A token store: the ids of one split's stories on disk, memory-mapped for reading.

`{split}.ids` has all stories concatenated (`<sos> w w <eos> <sos> ...`), little-endian uint16 if
the vocabulary has at most 65,536 entries, otherwise uint32; `{split}.offsets` has n + 1 int64 story
starts; `{split}.json` has the counts, and is written last.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from tinylm.base.config import InputError
from tinylm.base.files import atomic_write, read_json, require, write_bytes, write_json
from tinylm.base.parallel import in_groups

STAGE = "vocab"
STORIES_AT_ONCE = 2000  # packed as one part

Stories = Iterable[Sequence[int] | np.ndarray]
Packed = tuple[bytes, list[int]]  # (ids of some stories in the store's format, their lengths)


def id_type(vocab_size: int) -> np.dtype:
    """Smallest of uint16 and uint32 that can hold ids 0 ... vocab_size - 1."""
    return np.dtype("<u2" if vocab_size <= 1 << 16 else "<u4")


def pack(stories: Stories, vocab_size: int) -> Packed:
    """Concatenate the ids of the stories, exactly as given (`Tokenizer.encode_story`).

    Raises ValueError for an id outside the vocabulary.
    """
    arrays = [np.asarray(story, np.int64) for story in stories]
    ids = np.concatenate(arrays) if arrays else np.empty(0, np.int64)
    if ids.min(initial=0) < 0 or ids.max(initial=0) >= vocab_size:
        raise ValueError(f"an id is outside 0 to {vocab_size - 1}")
    return ids.astype(id_type(vocab_size)).tobytes(), list(map(len, arrays))


def write_store(folder: str | Path, split: str, stories: Stories, vocab_size: int) -> None:
    """Write a store of these stories. Raises ValueError for an id outside the vocabulary."""
    groups = in_groups(stories, STORIES_AT_ONCE)
    write_packed(folder, split, (pack(group, vocab_size) for group in groups), vocab_size)


def write_packed(folder: str | Path, split: str, packed: Iterable[Packed], vocab_size: int) -> None:
    """Write a store of stories that `pack` has concatenated."""
    base = Path(folder) / split
    ids_path = base.with_suffix(".ids")
    offsets_path = base.with_suffix(".offsets")
    lengths = [0]
    with atomic_write(ids_path, "wb") as handle:
        for ids, of_stories in packed:
            handle.write(ids)
            lengths += of_stories
    offsets = np.cumsum(lengths)
    write_bytes(offsets_path, offsets.astype("<i8").tobytes())
    info = {
        "stories": len(offsets) - 1,
        "tokens": int(offsets[-1]),
        "vocab_size": vocab_size,
        "dtype": id_type(vocab_size).name,
    }
    write_json(base.with_suffix(".json"), info)


class TokenStore:
    """One split, opened for reading.

    `name`: the split's, for messages; `ids`: memory map (N,) of uint16 or uint32; `offsets`: (n + 1,)
    int64, where each story starts. Raises InputError that names the file and the stage that writes it.
    """

    def __init__(self, folder: str | Path, split: str):
        base = Path(folder) / split
        info = read_json(base.with_suffix(".json"), STAGE)
        self.name = split
        offsets_path = require(base.with_suffix(".offsets"), STAGE)
        ids_path = require(base.with_suffix(".ids"), STAGE)
        self.vocab_size: int = info["vocab_size"]
        self.offsets = np.fromfile(offsets_path, dtype="<i8")
        dtype = id_type(self.vocab_size)
        expected, size = info["tokens"] * dtype.itemsize, ids_path.stat().st_size
        if size != expected:
            problem = f"expected {expected} bytes, got {size}"
            raise InputError(f"{ids_path}: {problem}; run dvc repro -f -s {STAGE}")
        self.ids: np.ndarray = np.empty(0, dtype)
        if info["tokens"]:  # an empty file cannot be mapped
            self.ids = np.memmap(ids_path, dtype=dtype, mode="r")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def count(self, index: int) -> np.ndarray:
        """How often an id occurs in each story.  -> (stories,)"""
        positions = np.flatnonzero(self.ids == index)
        return np.diff(np.searchsorted(positions, self.offsets))

    def story(self, index: int) -> np.ndarray:
        """The ids of one story, as a view of the memory map."""
        start, end = self.offsets[index : index + 2]
        return self.ids[start:end]
