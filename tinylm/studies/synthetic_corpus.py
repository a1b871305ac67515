"""A synthetic corpus, as large as wanted, that costs what TinyStories costs to read, count and encode.

Words are drawn independently, from function words and made-up ones. Their frequencies, rank by rank, are those of the
words in 17,628 stories of TinyStories, and so are punctuation, the share of stories that are not ASCII and of those
whose quotes were decoded wrongly. There are as many stories as in all of TinyStories, on average as long; their lengths
are log-normal. There is nothing to learn from it. A story depends on the seed and its block alone, so any number of
processes writes the same bytes.
"""

import functools
import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tinylm.base.config import InputError
from tinylm.base.files import atomic_write
from tinylm.download.in_order import map_in_order
from tinylm.download.readers import END_OF_TEXT
from tinylm.host.runtime import Progress
from tinylm.host.workers import cores

TRAIN_STORIES, VALIDATION_STORIES = 2_119_719, 21_990  # of TinyStories
VOCABULARY = 48_000
RANKS = (1, 2, 5, 10, 50, 100, 500, 1000, 2000, 5000, 9000, VOCABULARY)
SHARES = (
    0.060,
    0.046,
    0.0246,
    0.0105,
    0.0033,
    0.0018,
    2.2e-4,
    7.7e-5,
    2.9e-5,
    2e-6,
    2.2e-7,
    5e-10,
)  # of running words
MEDIAN_WORDS, SPREAD = 153, 0.42  # words per story
SENTENCE_WORDS = 9
DIALOGUE, EXCLAMATION, COMMA, PARAGRAPH = 0.12, 0.1, 0.053, 0.1  # of sentences; commas: of words
CURLY, MISREAD = 0.03, 0.004  # of stories
BLOCK_STORIES = 4000
COMMON = """
the and to a was he she it they said in her of day with his you had mom wanted that so big for on were very but saw is
them up at i their all there one could play time not then from him be my what like happy out went little we go no
"""
FUNCTION_WORDS = tuple(COMMON.split())
CONSONANTS, VOWELS, ENDINGS = "bdfghklmnprstw", "aeiou", ("", "s", "ny", "ler")
HEADS = ("", "capital", "quoted")
TAILS = (" ", ", ", ". ", "! ", '." ', '!" ', ".\n\n", '."\n\n')
QUOTED_TAILS, PARAGRAPH_TAILS = {2: 4, 3: 5, 6: 7}, {2: 6, 3: 6}
_QUOTES = re.compile('"([^"]*)"')
_AS_MISREAD = {"“": "â€œ", "”": "â€\x9d"}


@dataclass(frozen=True)
class Block:
    """Stories `first` to `last` of a split; new_words: share of words that occur nowhere else."""

    seed: int
    split: int
    first: int
    last: int
    new_words: float


def made_up_words(count: int) -> list[str]:
    """The function words, then words of two syllables and more, shortest first."""
    syllables = [consonant + vowel for vowel in VOWELS for consonant in CONSONANTS]
    longer = (
        "".join(parts)
        for length in itertools.count(2)
        for parts in itertools.product(syllables, repeat=length)
    )
    ended = (word + ending for word, ending in zip(longer, itertools.cycle(ENDINGS)))
    return list(itertools.islice(itertools.chain(FUNCTION_WORDS, ended), count))


@functools.cache
def _forms() -> list[str]:
    """Every word with every head and tail: index (head * len(TAILS) + tail) * VOCABULARY + word."""
    words = made_up_words(VOCABULARY)
    capitals = [word.capitalize() for word in words]
    heads = (words, capitals, [f'"{word}' for word in capitals])
    return [word + tail for own in heads for tail in TAILS for word in own]


@functools.cache
def _cumulative() -> np.ndarray:
    ranks = np.arange(1, VOCABULARY + 1)
    chances = np.exp(np.interp(np.log(ranks), np.log(RANKS), np.log(SHARES)))
    return np.cumsum(chances) / chances.sum()


def _places(rng: np.random.Generator, ends: np.ndarray) -> np.ndarray:
    """Index of each word's head and tail; ends: which words end a story."""
    total = len(ends)
    stops = ends | (rng.random(total) < 1 / SENTENCE_WORDS)
    starts = np.concatenate([[True], stops[:-1]])
    sentence = np.cumsum(starts) - 1
    sentences = int(sentence[-1]) + 1
    quoted = rng.random(sentences) < DIALOGUE
    tail_of = np.where(rng.random(sentences) < EXCLAMATION, 3, 2)
    tail_of = np.where(rng.random(sentences) < PARAGRAPH, 6, tail_of)
    tail_of = np.where(
        quoted,
        np.array([QUOTED_TAILS.get(tail, tail) for tail in range(len(TAILS))])[tail_of],
        tail_of,
    )
    tails = np.where(rng.random(total) < COMMA, 1, 0)
    tails = np.where(stops, tail_of[sentence], tails)
    heads = np.where(starts, 1 + quoted[sentence], 0)
    return heads * len(TAILS) + tails


def _new_word(number: int) -> str:
    """A word that no other number gives and that is none of the made-up ones."""
    letters = []
    while number:
        number, letter = divmod(number, 26)
        letters.append(chr(97 + letter))
    return "q" + "".join(letters)


def _with_quotes(text: str, draw: float) -> str:
    """Some stories get curly quotes, a few of them wrongly decoded; draw: a number from 0 to 1."""
    if draw >= CURLY + MISREAD:
        return text
    text = _QUOTES.sub("“\\1”", text)
    if draw < MISREAD:
        for curly, misread in _AS_MISREAD.items():
            text = text.replace(curly, misread)
    return text


def block_of_stories(block: Block) -> bytes:
    """The stories of a block, each followed by a line `<|endoftext|>`."""
    rng = np.random.default_rng([block.seed, block.split, block.first])
    forms = _forms()
    lengths = np.maximum(
        rng.lognormal(np.log(MEDIAN_WORDS), SPREAD, block.last - block.first).astype(np.int64), 3
    )
    borders = np.cumsum(lengths)
    ends = np.zeros(int(borders[-1]), dtype=bool)
    ends[borders - 1] = True
    words = np.searchsorted(_cumulative(), rng.random(len(ends)))
    parts = list(map(forms.__getitem__, (_places(rng, ends) * VOCABULARY + words).tolist()))
    if block.new_words:
        first = (block.first + TRAIN_STORIES * 100 * block.split) * 2000
        for place in np.flatnonzero(rng.random(len(ends)) < block.new_words).tolist():
            old = parts[place]
            parts[place] = old.replace(old.strip('", .!\n'), _new_word(first + place), 1)
    stories = (
        "".join(parts[start:end]) for start, end in itertools.pairwise([0, *borders.tolist()])
    )
    draws = rng.random(len(lengths)).tolist()
    mark = f"\n{END_OF_TEXT.decode()}\n"
    return "".join(
        _with_quotes(text.strip(), draw) + mark for text, draw in zip(stories, draws, strict=True)
    ).encode()


def _blocks(seed: int, split: int, stories: int, new_words: float) -> Iterator[Block]:
    for first in range(0, stories, BLOCK_STORIES):
        yield Block(seed, split, first, min(first + BLOCK_STORIES, stories), new_words)


def write_corpus(
    folder: str | Path,
    train: int,
    validation: int,
    new_words: float,
    seed: int,
    workers: int,
    every_s: float = 5.0,
) -> dict[str, int]:
    """Write train.txt and validation.txt, in the layout of TinyStories; returns the bytes of each."""
    sizes = {}
    with Progress("stories", train + validation, "stories", every_s) as progress:
        for split, (name, stories) in enumerate((("train", train), ("validation", validation))):
            blocks = list(_blocks(seed, split, stories, new_words))
            with atomic_write(Path(folder) / f"{name}.txt", "wb") as handle:
                written = map_in_order(block_of_stories, blocks, min(workers, len(blocks)))
                for block, content in zip(blocks, written, strict=True):
                    handle.write(content)
                    progress.advance(block.last - block.first)
                sizes[name] = handle.tell()
    return sizes


def write_checked(
    folder: str, stories: int | None, new_words: float, seed: int, workers: int | None
) -> dict[str, int]:
    """`write_corpus` with validation in TinyStories' proportion. InputError for bad values or if a corpus exists."""
    train = TRAIN_STORIES if stories is None else stories
    validation = max(1, train * VALIDATION_STORIES // TRAIN_STORIES)
    processes = cores() if workers is None else workers
    for name, value, least in (("stories", train, 1), ("workers", processes, 1), ("seed", seed, 0)):
        if value < least:
            raise InputError(f"--{name} {value}; allowed: a whole number >= {least}")
    if not 0 <= new_words <= 1:
        raise InputError(f"--new-words {new_words:g}; allowed: a share from 0 to 1")
    if not folder or (os.path.lexists(folder) and not os.path.isdir(folder)):
        raise InputError(
            f"{folder!r}: no folder; allowed: the name of a folder or of one to be made"
        )
    for path in (f"{folder}/{name}.txt" for name in ("train", "validation")):
        if os.path.lexists(path):
            raise InputError(
                f"{path} is there already; allowed: a folder without it, so that no corpus is lost"
            )
    return write_corpus(folder, train, validation, new_words, seed, processes)
