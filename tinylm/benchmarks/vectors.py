"""15,000 words' vectors from a fastText .bin of the official shape, against fasttext's own loader.

The file has 2 M words, 2 M buckets and width 300: 7.2 GB, of which only the rows asked for take space on disk (a
sparse file).
"""

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tinylm.base.files import atomic_write
from tinylm.benchmarks.interleaved import spreads, trials
from tinylm.benchmarks.options import Entry, Options
from tinylm.benchmarks.record import Row, against
from tinylm.embedding.fasttext_bin import subword_buckets
from tinylm.host.command import CommandFailed

VERSIONS = (11, 12)
SIZES = {
    "full": (2_000_000, 2_000_000, 300, 15_000),
    "tiny": (300, 500, 8, 40),
}  # words, buckets, width, asked
PEER_TRIALS = 2  # each loads the whole file
MAGIC, SKIPGRAM, NEGATIVE_SAMPLING = 793712314, 2, 1
MIN_N, MAX_N = 3, 6
LETTERS = "etaoinshrdlu"


def spelled(number: int) -> str:
    """A word for each number, all different, of three letters or more."""
    word = ""
    while number or len(word) < 3:
        number, digit = divmod(number, len(LETTERS))
        word += LETTERS[digit]
    return word


def asked_words(words: int, count: int) -> list[str]:
    """`count` words spread over the dictionary, every fifth of them not in it."""
    step = max(1, words // count)
    return [spelled(n * step) if n % 5 else f"{spelled(n * step)}x" for n in range(count)]


def _rows(words: int, buckets: int, asked: Sequence[str]) -> list[int]:
    """Rows of the input matrix that the asked words need."""
    step = max(1, words // len(asked))
    known = {spelled(n * step): n * step for n in range(len(asked)) if n * step < words}
    rows = {known[word] for word in asked if word in known}
    return sorted(
        rows
        | {
            words + bucket
            for word in asked
            for bucket in subword_buckets(word, MIN_N, MAX_N, buckets)
        }
    )


def write_bin(
    path: Path, version: int, words: int, buckets: int, width: int, asked: Sequence[str]
) -> None:
    """The file; the rows of `asked` are random, all others zero."""
    rng = np.random.default_rng(version)
    with atomic_write(path, "wb") as handle:
        handle.write(struct.pack("<ii", MAGIC, version))
        numbers = (width, 5, 5, 1, 5, 1, NEGATIVE_SAMPLING, SKIPGRAM, buckets, MIN_N, MAX_N, 100)
        handle.write(struct.pack("<12id", *numbers, 1e-4))
        handle.write(struct.pack("<iiiqq", words, words, 0, words * (words + 1) // 2, -1))
        handle.writelines(
            spelled(n).encode() + b"\0" + struct.pack("<qb", words - n, 0) for n in range(words)
        )
        handle.write(struct.pack("<?qq", False, words + buckets, width))
        start = handle.tell()
        for row in _rows(words, buckets, asked):
            handle.seek(start + 4 * width * row)
            handle.write(rng.standard_normal(width).astype("<f4").tobytes())
        handle.seek(start + 4 * width * (words + buckets))
        handle.write(struct.pack("<?qq", False, words, width))
        handle.truncate(handle.tell() + 4 * width * words)


def _version(options: Options, version: int) -> list[Row]:
    words, buckets, width, count = SIZES[options.size]
    path, asked = (
        (options.work / f"official-{version}-{options.size}.bin").absolute(),
        asked_words(words, count),
    )
    if not path.exists():
        write_bin(path, version, words, buckets, width, asked)
    setup = {"path": str(path), "words": asked, "width": width}
    entries = {
        "tinylm": Entry("text:our_vectors", setup),
        "fasttext": Entry("text:fasttext", setup, peer=True),
    }
    with options.contenders(entries) as contenders:
        both = min(options.trials, PEER_TRIALS)
        ours, theirs = trials(contenders, both, warm_up=0).values()
        ours += [contenders["tinylm"].measure() for _ in range(options.trials - both)]
    if {trial["digest"] for trial in ours} != {trial["digest"] for trial in theirs}:
        raise CommandFailed(f"vectors: version {version}: not fasttext's vectors to the bit")
    what = f"{len(asked):,} words, every fifth unknown, .bin version {version}, bit-identical"
    time, size = (spreads(ours, theirs, figure) for figure in ("seconds", "process_mib"))
    return [
        Row(f"{what}: time", "s", *time, "fasttext", time[0]["median"], "s", 2.0, higher=False),
        Row(
            f"{what}: process", "MiB", *size, "fasttext", size[0]["high"], "MiB", 300, higher=False
        ),
        against(f"{what}: time against fasttext", "s", *time, "fasttext"),
    ]


def vectors(options: Options) -> list[Row]:
    """15,000 words from a .bin of 2 M words and 2 M buckets (7.2 GB, sparse), versions 11 and 12."""
    return [row for version in VERSIONS for row in _version(options, version)]
