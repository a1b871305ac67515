"""The tree of a Markdown text and its conventions (render.py), which page and PDF share."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

SECTION, FOLD = 2, 4  # levels of headings


def parse(markdown: str) -> list[SyntaxTreeNode]:
    return SyntaxTreeNode(parser().parse(markdown)).children


@cache
def parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table")


def level(block: SyntaxTreeNode) -> int | None:
    """The level of a heading, None for every other block."""
    return int(block.tag[1:]) if block.type == "heading" else None


def images(block: SyntaxTreeNode) -> list[SyntaxTreeNode]:
    """The pictures of a paragraph that holds nothing else."""
    if block.type != "paragraph":
        return []
    parts = [part for part in block.children[0].children if part.type != "softbreak"]
    return parts if all(part.type == "image" for part in parts) else []


def is_note(block: SyntaxTreeNode) -> bool:
    parts = block.children[0].children if block.type == "paragraph" else []
    return len(parts) == 1 and parts[0].type == "em"


def is_warning(block: SyntaxTreeNode) -> bool:
    return block.type == "paragraph" and block.children[0].content.startswith("**Not shown:**")


def picture_name(picture: SyntaxTreeNode) -> str:
    return Path(str(picture.attrs["src"])).stem


def picture_caption(picture: SyntaxTreeNode) -> str:
    return str(picture.attrs.get("title", ""))


def is_facts(block: SyntaxTreeNode) -> bool:
    head = block.children[0]
    return not any(cell.children[0].content for cell in head.children[0].children)


def with_captions(
    blocks: Sequence[SyntaxTreeNode],
) -> Iterator[tuple[SyntaxTreeNode, SyntaxTreeNode | None]]:
    """(block, its caption): a note right before a table is not a block of its own."""
    caption = None
    for block, following in zip(blocks, [*blocks[1:], None]):
        if is_note(block) and following is not None and following.type == "table":
            caption = block
        else:
            yield block, caption
            caption = None


def plain_text(block: SyntaxTreeNode) -> str:
    parts = [part.content for part in block.walk() if part.type in ("text", "code_inline")]
    return "".join(parts)
