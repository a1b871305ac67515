"""Markdown as a PDF, set with Typst."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import matplotlib
import typst
from markdown_it.tree import SyntaxTreeNode
from matplotlib.ft2font import FT2Font

from tinylm.report import markdown_tree as tree

_LAYOUT = Path(__file__).with_name("pdf.typ")


def to_pdf(markdown: str, pictures: Mapping[str, bytes] | None = None) -> bytes:
    """The Markdown as a PDF, set with Typst; the same Markdown gives the same bytes.

    Args:
        markdown: what `render` returned.
        pictures: the PNG of each picture by name. Others are left out.
    """
    images = pictures or {}
    body = "\n".join(
        _typst_of_block(block, caption, images)
        for block, caption in tree.with_captions(_without_folds(tree.parse(markdown)))
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for picture, png in images.items():
            (folder / f"{picture}.png").write_bytes(png)
        source = folder / "report.typ"
        layout = _LAYOUT.read_text(encoding="utf-8")
        source.write_text(f"{layout}\n#{{\n{body}\n}}\n", encoding="utf-8")
        # No clock, so that the same run gives the same bytes; no tags, which would double the file's size.
        return typst.compile(
            source,
            root=folder,
            font_paths=[_fonts()],
            ignore_system_fonts=True,
            timestamp=0,
            pdf_tags=False,
        )


def _without_folds(blocks: Sequence[SyntaxTreeNode]) -> list[SyntaxTreeNode]:
    """The blocks but for folds, which only the page has."""
    printed = []
    in_fold = False
    for block in blocks:
        level = tree.level(block)
        if level is not None and level <= tree.FOLD:
            in_fold = level == tree.FOLD
        if not in_fold:
            printed.append(block)
    return printed


def _typst_of_block(
    block: SyntaxTreeNode, caption: SyntaxTreeNode | None, pictures: Mapping[str, bytes]
) -> str:
    """A block as a Typst expression; text only ever stands in quotes."""
    images = [picture for picture in tree.images(block) if tree.picture_name(picture) in pictures]
    if images:
        drawn = ", ".join(
            f"({_quoted(tree.picture_name(picture) + '.png')}, {_quoted(tree.picture_caption(picture))})"
            for picture in images
        )
        return f"pictures(({drawn},))"
    if tree.images(block):
        return ""
    match block.type:
        case "heading":
            return f"heading(level: {tree.level(block)}, {_typst_of_inline(block.children[0])})"
        case "paragraph" if tree.is_warning(block):
            return f"warning({_typst_of_inline(block.children[0])})"
        case "paragraph" if tree.is_note(block):
            return f"note({_typst_of_inline(block.children[0].children[0])})"
        case "paragraph":
            return f"par({_typst_of_inline(block.children[0])})"
        case "bullet_list" | "ordered_list":
            function = "list" if block.type == "bullet_list" else "enum"
            items = [_typst_of_inner(item, pictures) for item in block.children]
            return f"{function}({', '.join(items)})"
        case "blockquote":
            return f"quotation({_typst_of_inner(block, pictures)})"
        case "table":
            return _typst_of_table(block, caption)
        case "fence" | "code_block":
            return f"raw({_quoted(block.content)}, block: true)"
        case "hr":
            return "line(length: 100%)"
    raise ValueError(f"{block.type} has no form in the PDF")


def _typst_of_inner(block: SyntaxTreeNode, pictures: Mapping[str, bytes]) -> str:
    parts = [_typst_of_block(child, None, pictures) for child in block.children]
    return f"{{ {'; '.join(parts)} }}"


def _typst_of_table(block: SyntaxTreeNode, caption: SyntaxTreeNode | None) -> str:
    rows = [row for part in block.children for row in part.children]
    cells = [[_typst_of_inline(cell.children[0]) for cell in row.children] for row in rows]
    lines = ", ".join(f"({', '.join(row)},)" for row in cells)
    if tree.is_facts(block):
        return f"facts(({lines},).slice(1))"
    sides = ", ".join(
        "right" if "right" in str(cell.attrs.get("style", "")) else "left"
        for cell in rows[0].children
    )
    title = "none" if caption is None else _quoted(tree.plain_text(caption))
    return f"ruled({title}, ({sides},), ({lines},))"


def _typst_of_inline(inline: SyntaxTreeNode) -> str:
    parts = [_typst_of_part(part) for part in inline.children]
    return " + ".join(parts) or "[]"


def _typst_of_part(part: SyntaxTreeNode) -> str:
    match part.type:
        case "text":
            return _quoted(part.content)
        case "softbreak":
            return '" "'
        case "hardbreak":
            return "linebreak()"
        case "strong":
            return f"strong({_typst_of_inline(part)})"
        case "em":
            return f"emph({_typst_of_inline(part)})"
        case "code_inline":
            return f"code({_quoted(part.content)})"
        case "link":
            return f"link({_quoted(str(part.attrs['href']))}, {_typst_of_inline(part)})"
    raise ValueError(f"{part.type} has no form in the PDF")


def _quoted(text: str) -> str:
    """Text as a Typst string, with ⟨U+XXXX⟩ for each character that the fonts lack."""
    printed = "".join(
        character if ord(character) in _characters() or character == "\n" else _spelt(character)
        for character in text
    )
    return json.dumps(printed, ensure_ascii=False)


def _spelt(character: str) -> str:
    return f"⟨U+{ord(character):04X}⟩"


def _fonts() -> Path:
    """Matplotlib ships DejaVu and typst the serif font, so that nothing has to be installed."""
    return Path(matplotlib.get_data_path()) / "fonts/ttf"


@cache
def _characters() -> frozenset[int]:
    return frozenset(FT2Font(str(_fonts() / "DejaVuSans.ttf")).get_charmap())
