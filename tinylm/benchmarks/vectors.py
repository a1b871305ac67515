"""15,000 words' vectors out of a fastText .bin of the official shape, against fasttext's own loader."""

import contextlib
from pathlib import Path

from tinylm.benchmarks import bin_file
from tinylm.benchmarks.interleaved import in_turn, spread
from tinylm.benchmarks.options import Options, command
from tinylm.benchmarks.record import Row, against
from tinylm.host.command import CommandFailed

NAME = "vectors"
VERSIONS = (11, 12)
SIZES = {"full": (2_000_000, 2_000_000, 300, 15_000), "tiny": (300, 500, 8, 40)}  # words, buckets, width, asked
PEER_TURNS = 2  # each loads the whole file


def _file(options: Options, version: int) -> tuple[Path, list[str]]:
    """(the file, made where it is not there yet; the words asked for)."""
    words, buckets, width, asked = SIZES[options.size]
    path = (options.work / f"official-{version}-{options.size}.bin").absolute()
    named = bin_file.asked_words(words, asked)
    if not path.exists():
        bin_file.write(path, version, words, buckets, width, named)
    return path, named


def _version(options: Options, version: int) -> list[Row]:
    path, words = _file(options, version)
    setup = {"path": str(path), "words": words, "width": SIZES[options.size][2]}
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(options.side("tinylm", "vectors:ours", setup))
        theirs = stack.enter_context(options.side("fasttext", "vectors:fasttext", setup, peer=True))
        turns = min(options.turns, PEER_TURNS)
        found = in_turn({"ours": ours.turn, "theirs": theirs.turn}, turns, warm_up=0)
        mine = [*found["ours"], *(ours.turn() for _ in range(options.turns - turns))]
    if {turn["digest"] for turn in mine} != {turn["digest"] for turn in found["theirs"]}:
        raise CommandFailed(f"vectors: version {version}: not fasttext's vectors to the bit")
    what = f"{len(words):,} words, every fifth unknown, .bin version {version}, equal to the bit"
    figures = [
        [spread(turn[key] for turn in side) for side in (mine, found["theirs"])] for key in ("seconds", "process_mib")
    ]
    (seconds, slow), (size, large) = figures
    rows = [
        Row(f"{what}: time", "s", seconds, slow, "fasttext", seconds["median"], "s", 2.0, higher=False),
        Row(f"{what}: process", "MiB", size, large, "fasttext", size["high"], "MiB", 300, higher=False),
        against(f"{what}: time against fasttext", "s", seconds, slow, "fasttext"),
    ]
    return rows


def run(options: Options) -> list[Row]:
    """15,000 words out of a .bin of 2 M words and 2 M buckets (7.2 GB, sparse), versions 11 and 12."""
    return [row for version in VERSIONS for row in _version(options, version)]


if __name__ == "__main__":
    command(NAME, run)
