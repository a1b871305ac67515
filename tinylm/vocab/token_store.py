"""What stage vocab writes for later stages: a token store for each split, and the embedding matrix.

A token store holds one split's ids on disk, memory-mapped for reading.
`{split}.ids` has all stories concatenated (`<sos> w w <eos> <sos> ...`), little-endian uint16 if
the vocabulary has at most 65,536 entries, otherwise uint32; `{split}.offsets` has n + 1 int64 story
starts; `{split}.json` has the counts, and is written last.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.base.files import atomic_write, read_json, require, write_bytes, write_json
from tinylm.base.parallel import in_groups, map_in_order
from tinylm.base.progress import Progress
from tinylm.download.stories import SPLITS, read_texts
from tinylm.vocab.tokenizer import Tokenizer

STAGE = "vocab"
TENSOR = "embedding"
STORIES_AT_ONCE = 2000  # encoded by a process as one task

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


def encode_splits(tokenizer: Tokenizer, stories: Path, folder: Path, workers: int) -> None:
    """Encode each split with several processes, and write its store to `folder`.

    The bytes depend only on the tokenizer and the stories. Raises InputError.
    """
    with Progress("stories to ids", None, "stories") as progress:
        for split in SPLITS:
            groups = in_groups(read_texts(stories, split), STORIES_AT_ONCE)
            encoded = map_in_order(_encode, groups, workers, tokenizer)
            write_packed(folder, split, _counted(encoded, progress), len(tokenizer))


def _encode(texts: Sequence[str], tokenizer: Tokenizer) -> Packed:
    return pack(map(tokenizer.encode_story, texts), len(tokenizer))


def _counted(encoded: Iterable[Packed], progress: Progress) -> Iterator[Packed]:
    for ids, lengths in encoded:
        progress.advance(len(lengths))
        yield ids, lengths


def _pieces(store: TokenStore, first: int, last: int) -> Iterator[np.ndarray]:
    """The stories within ids[first:last]; those that cross an end are cut there."""
    borders = np.unique(store.offsets.clip(first, last))
    for start, end in itertools.pairwise(borders):
        yield store.ids[start:end]


def cut_stream(folder: str | Path, share: float, overlap: int) -> dict[str, Any]:
    """Cut the store `train`, which holds the whole stream, into stores `train` and `held_out`.

    N ids: cut = int((1 - share) * (N - overlap)), train = ids[:cut + overlap], held_out =
    ids[cut:]. With overlap = context, the windows of context + 1 ids at stride 1 are cut at the
    same share: int((1 - share) * windows) start in train, the rest in held_out. If the store
    `evaluation` is empty, it becomes a copy of held_out.

    Returns where the cut is, and notes on what crosses it. Raises InputError if a side has nothing
    to predict or no token of its own.
    """
    whole = TokenStore(folder, "train")
    tokens = len(whole.ids)
    cut = int((1 - share) * (tokens - overlap))
    smaller_side = min(cut, tokens - overlap - cut)
    if smaller_side < 1 or smaller_side + overlap < 2:
        raise InputError(
            f"{PARAMS_FILE}: data.held_out_share: the cut leaves one side without tokens of its "
            f"own (share {share}, overlap {overlap}, {tokens} tokens in all)"
        )
    size = whole.vocab_size
    write_store(folder, "held_out", _pieces(whole, cut, tokens), size)
    evaluation = "evaluation has stories of its own"
    if not len(TokenStore(folder, "evaluation").ids):
        evaluation = "evaluation is the held-out tokens"
        write_store(folder, "evaluation", _pieces(whole, cut, tokens), size)
    write_store(folder, "train", _pieces(whole, 0, cut + overlap), size)
    notes = [
        f"train is ids[:{cut + overlap}], held out ids[{cut}:]: windows straddle the cut by "
        f"{overlap} tokens",
        "a vocabulary or skip-gram vectors made here saw the whole stream",
        evaluation,
    ]
    return {
        "by": "tokens",
        "stream_tokens": tokens,
        "cut": cut,
        "overlap": overlap,
        "notes": notes,
    }


def coverage(store: TokenStore, unk_id: int | None, marks: Collection[int]) -> dict[str, Any]:
    """The shares of a split's words that are and that are not `<unk>`, and the words per story.

    marks: ids of `<sos>` and `<eos>`, which are not counted as words. Without unk_id, every word
    is known.
    """
    lengths = np.diff(store.offsets)  # words of each story
    unknown = 0
    for mark in marks:
        lengths = lengths - store.count(mark)
    if unk_id is not None:
        unknown = int(store.count(unk_id).sum())
    words = int(lengths.sum())
    share = unknown / words if words else 0.0
    return {
        "unknown_share": share,
        "coverage": 1.0 - share,
        "sequence_length": {
            "mean": round(float(lengths.mean()), 3) if words else 0.0,
            "median": float(np.median(lengths)) if words else 0.0,
            "largest": int(lengths.max(initial=0)),
        },
    }


def save_matrix(path: str | Path, matrix: np.ndarray) -> None:
    """Write the (V, D) matrix as safetensors."""
    from safetensors.numpy import save

    matrix = np.ascontiguousarray(matrix, dtype=np.float32)
    write_bytes(path, save({TENSOR: matrix}))


def load_matrix(path: str | Path) -> np.ndarray:
    """Read what `save_matrix` wrote, (V, D) float32. Raises InputError for any other file."""
    from safetensors import SafetensorError, safe_open

    require(path, "vocab")
    try:
        with safe_open(str(path), framework="numpy") as file:
            matrix = file.get_tensor(TENSOR)
        if matrix.dtype != np.float32 or matrix.ndim != 2:
            raise ValueError(f"expected float32 (V, D), got {matrix.dtype} {matrix.shape}")
        if not np.isfinite(matrix).all():
            raise ValueError("a value is not finite")
    except (SafetensorError, OSError, TypeError, ValueError, KeyError) as error:
        reason = str(error)[:160]
        raise InputError(
            f"{path}: not an embedding matrix of tinylm ({reason}); "
            f"rm {path} and run dvc repro -f -s vocab"
        ) from None
    return matrix
