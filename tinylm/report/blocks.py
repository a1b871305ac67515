"""Section content, independent of layout: the page (html.py) and the paper (paper.py) are made of blocks.

The functions below return lists of blocks, empty if there is nothing to show, so sections add them up. Text in blocks
is plain; whoever lays it out escapes it.
"""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

import numpy as np

from tinylm.report.wording import ABSENT


@dataclasses.dataclass(frozen=True)
class Heading:
    """A heading inside a section."""

    text: str


@dataclasses.dataclass(frozen=True)
class Paragraph:
    """Sentences; kind: "" | lead | note | missing."""

    text: str
    kind: str


@dataclasses.dataclass(frozen=True)
class Bullets:
    """A list."""

    items: Sequence[str]


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of cells, the first of each its header; `prose`: heads of the columns that are left-aligned text.

    `stacked`: if there is little room, each row becomes a block of labelled lines.
    """

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    prose: Collection[str]
    stacked: bool


@dataclasses.dataclass(frozen=True)
class Facts:
    """Terms and values; as a board, the values are emphasised."""

    pairs: Sequence[tuple[str, str]]
    board: bool


@dataclasses.dataclass(frozen=True)
class Figure:
    """A picture by its name in pictures.py, left out if it was not drawn; `wide`: needs the whole width."""

    name: str
    caption: str
    wide: bool


@dataclasses.dataclass(frozen=True)
class Gallery:
    """Blocks side by side if there is room; `small`: in many narrow columns."""

    blocks: "Blocks"
    small: bool


@dataclasses.dataclass(frozen=True)
class Fold:
    """Blocks behind a line that opens them; on paper they follow the line, or are left out."""

    summary: str
    blocks: "Blocks"
    is_open: bool
    on_paper: bool


@dataclasses.dataclass(frozen=True)
class Quotes:
    """Texts, each under a line that says where it comes from."""

    items: Sequence[tuple[str, str]]


@dataclasses.dataclass(frozen=True)
class Shaded:
    """A prompt and its continuation, each token coloured by its probability."""

    prompt: str
    tokens: Sequence[tuple[str, float]]


@dataclasses.dataclass(frozen=True)
class Maps:
    """Attention maps (T, T) over the same words, each with its title."""

    words: Sequence[str]
    panels: Sequence[tuple[str, np.ndarray]]


Block = (
    Heading | Paragraph | Bullets | Table | Facts | Figure | Gallery | Fold | Quotes | Shaded | Maps
)
Blocks = list[Block]


def heading(text: str) -> Blocks:
    """A heading inside a section."""
    return [Heading(text)]


def paragraph(*sentences: str, kind: str = "") -> Blocks:
    """Sentences as one paragraph."""
    text = " ".join(sentence for sentence in sentences if sentence)
    return [Paragraph(text, kind)] if text else []


def bullets(items: Iterable[str]) -> Blocks:
    """A list."""
    lines = tuple(items)
    return [Bullets(lines)] if lines else []


def table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    prose: Collection[str] = (),
    stacked: bool = False,
) -> Blocks:
    """A table with a caption."""
    cells = tuple(tuple(row) for row in rows)
    return [Table(caption, tuple(heads), cells, prose, stacked)] if cells else []


def record_table(
    caption: str,
    first: str,
    records: Mapping[str, Sequence[str]],
    heads: Sequence[str],
    *,
    prose: bool = False,
) -> Blocks:
    """A table of {row name: cells}; columns without a single value are left out. prose: all cells are text."""
    used = [i for i in range(len(heads)) if any(cells[i] != ABSENT for cells in records.values())]
    rows = [[name, *(cells[i] for i in used)] for name, cells in records.items()]
    kept = [first, *(heads[i] for i in used)]
    return table(caption, kept, rows, prose=kept if prose else (), stacked=prose)


def facts(pairs: Iterable[tuple[str, str]], *, board: bool = False) -> Blocks:
    """Terms and values; absent values are left out."""
    known = tuple((term, value) for term, value in pairs if value != ABSENT)
    return [Facts(known, board)] if known else []


def picture(name: str, caption: str, *, wide: bool = False) -> Blocks:
    """A picture with its caption."""
    return [Figure(name, caption, wide)]


def gallery(*parts: Blocks, small: bool = False) -> Blocks:
    """Blocks side by side."""
    blocks = joined(parts)
    return [Gallery(blocks, small)] if blocks else []


def fold(summary: str, blocks: Blocks, *, is_open: bool = False, on_paper: bool = True) -> Blocks:
    """Blocks behind a line that opens them."""
    return [Fold(summary, blocks, is_open, on_paper)] if blocks else []


def joined(parts: Iterable[Blocks]) -> Blocks:
    """All blocks of the parts in one list."""
    return list(chain.from_iterable(parts))
