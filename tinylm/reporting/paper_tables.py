"""Tables of the paper: columns as wide as their text wants, rows that break across pages under a repeated header."""

from collections.abc import Sequence

from reportlab.lib.styles import ParagraphStyle
from reportlab.platypus import Flowable, LongTable, Paragraph, Table, TableStyle

from tinylm.reporting import blocks
from tinylm.reporting.paper_style import PAGE, RULE_COLOUR, SOFT_COLOUR, bare, cell_style, text, width_of

_SIZES = (8.0, 7.2, 6.4, 5.8)  # of a table's text, in points; the first that fits is taken
_LARGE = 2  # so many of them are tried for whole lines before words are wrapped
PLAIN = TableStyle(
    [
        ("VALIGN", (0, 0), (-1, -1), "TOP"),
        ("LEFTPADDING", (0, 0), (-1, -1), 0),
        ("RIGHTPADDING", (0, 0), (-1, -1), 6),
        ("TOPPADDING", (0, 0), (-1, -1), 1),
        ("BOTTOMPADDING", (0, 0), (-1, -1), 1),
    ]
)
_HIGHEST_ROW, _LEAST_OF_A_ROW = PAGE[1] / 2, 80.0  # a higher row is split, where so much of it fits
_LONGEST_HEAD = 80  # letters
_TERM = 0.33  # of the width, at most, for a term in a list of terms and values
_BOARD = 3  # headline figures a row
_PAD = 7.0  # right of each cell
_WIDEST_WORD = 1.2  # of an even share of the table; a longer one is broken


class _Rows(LongTable):
    """Rows that stay whole unless one is higher than half a page."""

    def split(self, availWidth: float, availHeight: float) -> list[Flowable]:
        """Called by reportlab: the part that fits and the rest, nothing where all goes to the next page."""
        self.wrap(availWidth, availHeight)
        self.splitInRow = int(max(self._rowHeights) > _HIGHEST_ROW and availHeight > _LEAST_OF_A_ROW)
        return super().split(availWidth, availHeight)


def column_widths(rows: Sequence[Sequence[str]], style: ParagraphStyle, total: float) -> tuple[list[float], int]:
    """Widths of the columns, `total` at most, and how well it goes: 2 no line is broken, 1 no word, 0 some are.

    Every column gets its longest word; what is left goes to those that want more, in proportion.
    """
    columns = list(zip(*rows))
    most = [max(width_of(bare(cell), style) for cell in column) + _PAD + 1 for column in columns]
    if sum(most) <= total:
        return most, 2
    words = [
        max((width_of(bare(word), style) for cell in column for word in cell.split()), default=0) for column in columns
    ]
    least = [min(word + _PAD + 1, _WIDEST_WORD * total / len(columns)) for word in words]
    if sum(least) > total:
        return [width * total / sum(least) for width in least], 0
    wanted = [max(wide - narrow, 0) ** 0.7 for wide, narrow in zip(most, least)]
    share = (total - sum(least)) / (sum(wanted) or 1)
    return [narrow + share * more for narrow, more in zip(least, wanted)], 1


def ruled_table(block: blocks.Table, total: float) -> Flowable:
    """A table under its header, which stands on each page again; text columns left, figures right."""
    rows = [[_clipped(head) for head in block.heads], *block.rows]
    tried = {size: column_widths(rows, cell_style(size, bold=True), total) for size in _SIZES}
    wanted = [2] * _LARGE + [1] * len(_SIZES)
    size = next((size for size, least in zip(_SIZES[:_LARGE] + _SIZES, wanted) if tried[size][1] >= least), _SIZES[-1])
    widths = tried[size][0]
    left = [number == 0 or head in block.prose for number, head in enumerate(block.heads)]
    body = [
        [
            Paragraph(text(cell), cell_style(size, right=not left[i], bold=number == 0 or i == 0, soft=number == 0))
            for i, cell in enumerate(row)
        ]
        for number, row in enumerate(rows)
    ]
    style = [
        ("VALIGN", (0, 0), (-1, -1), "TOP"),
        ("VALIGN", (0, 0), (-1, 0), "BOTTOM"),
        ("LEFTPADDING", (0, 0), (-1, -1), 0),
        ("RIGHTPADDING", (0, 0), (-1, -1), _PAD),
        ("TOPPADDING", (0, 0), (-1, -1), 1.6),
        ("BOTTOMPADDING", (0, 0), (-1, -1), 2.2),
        ("LINEBELOW", (0, 0), (-1, 0), 0.8, SOFT_COLOUR),
        ("LINEBELOW", (0, 1), (-1, -1), 0.4, RULE_COLOUR),
    ]
    return _Rows(body, colWidths=widths, style=style, repeatRows=1, splitInRow=1, hAlign="LEFT", spaceBefore=2)


def _clipped(head: str) -> str:
    """A header stands on one page whole, whatever its text is."""
    return head if len(head) <= _LONGEST_HEAD else f"{head[: _LONGEST_HEAD - 1]}…"


def facts_table(pairs: Sequence[tuple[str, str]], total: float) -> Flowable:
    """Terms and values, two pairs a line."""
    term, value = cell_style(8, soft=True), cell_style(8)
    cells = [[Paragraph(text(name), term), Paragraph(text(shown), value)] for name, shown in pairs]
    if len(cells) % 2:
        cells.append(["", ""])
    rows = [[*left, *right] for left, right in zip(cells[::2], cells[1::2])]
    terms = min(max(width_of(bare(name), term) for name, _ in pairs) + 12, _TERM * total)
    return plain_grid(rows, [terms, total / 2 - terms] * 2, split=True)


def board(pairs: Sequence[tuple[str, str]], total: float) -> Flowable:
    """Headline figures, three a row, each above its name."""
    small = cell_style(7.5, soft=True)
    cells: list = [
        [Paragraph(text(shown), cell_style(12, bold=True)), Paragraph(text(name), small)] for name, shown in pairs
    ]
    cells += [""] * (-len(cells) % _BOARD)
    rows = [cells[first : first + _BOARD] for first in range(0, len(cells), _BOARD)]
    return plain_grid(rows, [total / _BOARD] * _BOARD)


def plain_grid(rows: list[list], widths: list[float], *, split: bool = False) -> Flowable:
    """Cells beside each other without lines; `split`: a row may go on on the next page."""
    return Table(rows, colWidths=widths, style=PLAIN, hAlign="LEFT", splitInRow=int(split))
