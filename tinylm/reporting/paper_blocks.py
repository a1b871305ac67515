"""Blocks as what reportlab sets on pages: the counterpart of html.py."""

import io
from collections.abc import Mapping

import reportlab.platypus as platypus
from reportlab.platypus import CondPageBreak, Flowable, Spacer

from tinylm.reporting.blocks import (
    Block,
    Blocks,
    Bullets,
    Facts,
    Figure,
    Fold,
    Gallery,
    Heading,
    Maps,
    Paragraph,
    Quotes,
    Shaded,
    Table,
)
from tinylm.reporting.paper_maps import map_rows
from tinylm.reporting.paper_style import PAGE, STYLES, WIDTH, shade, text
from tinylm.reporting.paper_tables import board, facts_table, plain_grid, ruled_table
from tinylm.reporting.wording import percent

_GAP = 14.0  # between two columns
_TALL = 0.6 * PAGE[1]  # what is higher does not share a row
_ROOM = 90.0  # for the beginning of a table or paragraph, in points
_TALLEST = 0.8 * PAGE[1]
_DRAWN = 72 / 150  # points a pixel of drawing.to_png
_NARROW = 0.74  # a picture that stands alone, of the text's width


def leading(flowable: Flowable) -> Flowable:
    """Marks what must not be parted from that which follows it: a heading, a caption, a picture above its caption."""
    flowable.leads = True
    return flowable


def kept_together(story: list[Flowable]) -> list[Flowable]:
    """The story with a page break wherever what leads and the beginning of what it leads to would not fit."""
    found: list[Flowable] = []
    run: list[Flowable] = []
    for flowable in story:
        run.append(flowable)
        if not getattr(flowable, "leads", False):
            if len(run) > 1:
                found.append(CondPageBreak(min(sum(map(_room, run)), _TALLEST)))
            found, run = found + run, []
    return found + run


def _room(flowable: Flowable) -> float:
    """Height that it needs at its place, in points; what goes on on the next page needs its beginning only."""
    if isinstance(flowable, platypus.LongTable):
        return _ROOM
    height = flowable.getSpaceBefore() + flowable.wrap(WIDTH, PAGE[1])[1] + flowable.getSpaceAfter()
    return min(height, _ROOM) if isinstance(flowable, platypus.Paragraph) else height


class Setter:
    """Sets blocks as flowables and numbers figures and tables; `pngs` holds the pictures by name."""

    def __init__(self, pngs: Mapping[str, bytes]):
        self._pngs = pngs
        self._numbers = {"Figure": 0, "Table": 0}

    def set(self, blocks: Blocks, width: float = WIDTH) -> list[Flowable]:
        """Blocks one after another, in a column so wide."""
        return [flowable for block in blocks for flowable in self._one(block, width)]

    def _one(self, block: Block, width: float) -> list[Flowable]:
        match block:
            case Heading(words):
                return [leading(_line(words, "heading"))]
            case Paragraph(words, kind):
                return [_line(words, kind or "body")]
            case Bullets(items):
                return [platypus.Paragraph(text(item), STYLES["bullet"], bulletText="•") for item in items]
            case Table():
                return [leading(self._caption("Table", block.caption)), ruled_table(block, width), Spacer(0, 10)]
            case Facts(pairs, headline):
                return [(board if headline else facts_table)(pairs, width), Spacer(0, 8)]
            case Figure():
                return self._figure(block, width if block.wide or width < WIDTH else _NARROW * width)
            case Gallery(inner, small):
                return self._lists(inner, width) if small else self._gallery(inner, (width - _GAP) / 2)
            case Fold(summary, inner, _, on_paper):
                return [leading(_line(summary, "heading")), *self.set(inner, width)] if on_paper else []
            case Quotes(items):
                pairs = [(leading(_line(when, "note")), _line(words, "quote")) for when, words in items]
                return [flowable for pair in pairs for flowable in pair]
            case Shaded():
                return [_shaded(block)]
            case Maps():
                return map_rows(block, width)

    def _caption(self, kind: str, words: str) -> Flowable:
        self._numbers[kind] += 1
        return platypus.Paragraph(f"<b>{kind} {self._numbers[kind]}.</b> {text(words)}", STYLES["caption"])

    def _figure(self, block: Figure, width: float) -> list[Flowable]:
        png = self._pngs.get(block.name)
        if png is None:
            return []
        drawn = platypus.Image(io.BytesIO(png), hAlign="LEFT")
        scale = min(width / drawn.imageWidth, _DRAWN, _TALL / drawn.imageHeight)
        drawn.drawWidth, drawn.drawHeight = scale * drawn.imageWidth, scale * drawn.imageHeight
        return [leading(drawn), self._caption("Figure", block.caption), Spacer(0, 8)]

    def _lists(self, blocks: Blocks, width: float) -> list[Flowable]:
        """Tables of two columns as lists of terms and values, which take less room."""
        tables = [block for block in blocks if isinstance(block, Table)]
        pairs = [
            (leading(_line(block.caption, "heading")), [(row[0], row[1]) for row in block.rows]) for block in tables
        ]
        return [flowable for caption, rows in pairs for flowable in (caption, facts_table(rows, width))]

    def _gallery(self, blocks: Blocks, half: float) -> list[Flowable]:
        """Two and two beside each other in columns so wide, but what is too high or too wide for that."""
        drawn = [block for block in blocks if not isinstance(block, Figure) or block.name in self._pngs]
        found: list[Flowable] = []
        for pair in (drawn[first : first + 2] for first in range(0, len(drawn), 2)):
            numbers = dict(self._numbers)
            cells = [self.set([block], half) for block in pair]
            height = max(sum(flowable.wrap(half, PAGE[1])[1] for flowable in cell) for cell in cells)
            if height < _TALL and all(map(_fits, pair)):
                found.append(plain_grid([cells], [half + _GAP, half][: len(pair)]))
            else:
                self._numbers = numbers
                found += self.set(pair)
        return found


def _fits(block: Block) -> bool:
    return not (isinstance(block, Table) and block.stacked) and not (isinstance(block, Figure) and block.wide)


def _line(words: str, style: str) -> Flowable:
    return platypus.Paragraph(text(words), STYLES[style])


def _shaded(block: Shaded) -> Flowable:
    tokens = " ".join(
        f'<font backColor="{shade(probability).hexval().replace("0x", "#")}">&nbsp;{text(token)}</font>'
        f'<sub rise="1" size="6">{text(percent(probability))}</sub>'
        for token, probability in block.tokens
    )
    return platypus.Paragraph(f"<b>{text(block.prompt)}</b> {tokens}", STYLES["shaded"])
