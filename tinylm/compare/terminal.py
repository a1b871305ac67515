"""Blocks as plain text for a terminal: tables in columns, long texts wrapped."""

import shutil
import textwrap
from collections.abc import Sequence

from tinylm.base.printable import visible
from tinylm.compare.sections import Sections
from tinylm.report.blocks import Block, Blocks, Bullets, Fold, Heading, Paragraph, Quotes, Table

_NARROWEST = 80


def to_text(sections: Sections, width: int | None = None) -> str:
    """Sections one after another; `width` in letters, by default the terminal's."""
    width = max(width or shutil.get_terminal_size().columns, _NARROWEST)
    parts = [
        f"{visible(title)}\n{'-' * len(visible(title))}\n{_blocks(blocks, width)}"
        for title, blocks in sections
    ]
    return "\n\n".join(parts)


def _blocks(blocks: Blocks, width: int) -> str:
    return "\n".join(_block(block, width) for block in blocks)


def _block(block: Block, width: int) -> str:
    match block:
        case Heading(text):
            return f"\n{visible(text)}"
        case Paragraph(text, _):
            return textwrap.fill(visible(text), width)
        case Bullets(items):
            return "\n".join(visible(item) for item in items)
        case Fold(summary, inner):
            return f"{visible(summary)}\n{_blocks(inner, width)}"
        case Quotes(items):
            lines = [f"{visible(where)}: {visible(text)}" for where, text in items]
            return "\n".join(
                textwrap.fill(line, width, initial_indent="  ", subsequent_indent="    ")
                for line in lines
            )
        case Table():
            return _table(block, width)
    raise TypeError(f"{type(block).__name__} has no form for a terminal")


def _table(block: Table, width: int) -> str:
    """Columns as wide as their longest cell, numbers right-aligned; a wide table continues below with its first column.

    Prose in the last column is printed after its row, or under it if there is too little room.
    """
    rows = [[visible(cell) for cell in row] for row in [block.heads, *block.rows]]
    prose = [row.pop() for row in rows] if block.heads[-1] in block.prose else [""] * len(rows)
    lines = textwrap.wrap(f"({visible(block.caption)})", width)
    pieces = _pieces(rows, width)
    for piece in pieces:
        widths = [max(map(len, column)) for column in zip(*piece, strict=True)]
        room = width - sum(widths) - 2 * len(widths)
        for row, text in zip(
            piece, prose if piece is pieces[-1] else [""] * len(rows), strict=True
        ):
            first, *others = (cell.rjust(size) for cell, size in zip(row, widths, strict=True))
            cells = "  ".join([first.strip().ljust(widths[0]), *others])
            if room >= width // 4:
                lines += _beside(cells, text, room)
            else:
                lines += [
                    cells,
                    *(
                        f"    {line}"
                        for line in textwrap.wrap(text, width - 4)
                        if row is not piece[0]
                    ),
                ]
    return "\n".join(line.rstrip() for line in lines)


def _pieces(rows: list[list[str]], width: int) -> list[list[list[str]]]:
    """The table cut into groups of columns that fit the width, each after the first column."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    groups: list[list[int]] = [[0]]
    used = widths[0]
    for column, size in enumerate(widths[1:], start=1):
        if used + 2 + size > width and len(groups[-1]) > 1:
            groups.append([0])
            used = widths[0]
        groups[-1].append(column)
        used += 2 + size
    return [[[row[column] for column in group] for row in rows] for group in groups]


def _beside(cells: str, text: str, room: int) -> Sequence[str]:
    """Prose after the cells of its row."""
    first, *more = textwrap.wrap(text, room) or [""]
    return [f"{cells}  {first}", *(" " * (len(cells) + 2) + line for line in more)]
