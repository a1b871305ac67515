"""Blocks of the report as GitHub-flavoured Markdown: everything from data is escaped here and nowhere else."""

import re
from collections.abc import Mapping, Sequence

from tinylm.base.printable import visible
from tinylm.report.blocks import (
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

Files = Mapping[str, tuple[str, str]]  # picture's name: (path of the file, alt text)
_SPECIAL = re.compile(
    r"[\\`*\[\]<>#|~$]|(?<![^\W_])_|_(?![^\W_])"
)  # inside a word _ has no meaning
_LIST_MARK = re.compile(r"^(\s*)([-+=]|\d+(?=[.)](?:\s|$)))")


def escape(text: str) -> str:
    """Text escaped so that Markdown shows it as it is, on one line."""
    plain = _SPECIAL.sub(r"\\\g<0>", " ".join(text.split()).replace("&", "&amp;"))
    plain = plain.replace("\\<", "&lt;")  # some renderers see a tag after the backslash
    plain = _LIST_MARK.sub(
        lambda m: f"{m[1]}{m[2]}\\" if m[2][-1].isdigit() else f"{m[1]}\\{m[2]}", plain
    )
    return visible(plain)


def to_markdown(blocks: Blocks, pictures: Files) -> str:
    """Blocks one after another, separated by blank lines; without pictures that have no file, maps and shaded text."""
    return "\n\n".join(text for block in blocks if (text := _render(block, pictures)))


def _render(block: Block, pictures: Files) -> str:
    match block:
        case Heading(text):
            return f"### {escape(text)}"
        case Paragraph(text):
            return escape(text)
        case Bullets(items):
            return "\n".join(f"- {escape(item)}" for item in items)
        case Table(caption, heads, rows, prose):
            return f"**{escape(caption)}**\n\n{_table(heads, rows, ['---' if h in prose else '--:' for h in heads[1:]])}"
        case Facts(pairs):
            return _table(("", ""), pairs, ["---"])
        case Figure(name, caption):
            path, words = pictures.get(name, ("", ""))
            return f"![{escape(words)}]({path})\n\n*{escape(caption)}*" if path else ""
        case Gallery(inner):
            return to_markdown(inner, pictures)
        case Fold(summary, inner):
            shown = to_markdown(inner, pictures)
            return (
                f"<details><summary>{escape(summary)}</summary>\n\n{shown}\n\n</details>"
                if shown
                else ""
            )
        case Quotes(items):
            return "\n\n".join(f"*{escape(when)}*\n\n{_quote(text)}" for when, text in items)
        case Shaded() | Maps():
            return ""


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], sides: Sequence[str]) -> str:
    lines = [
        [escape(head) for head in heads],
        ["---", *sides],
        *([escape(cell) for cell in row] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _quote(text: str) -> str:
    """The text's own lines kept."""
    return "\\\n".join(f"> {escape(line)}" for line in text.splitlines() if line.strip()) or "> –"
