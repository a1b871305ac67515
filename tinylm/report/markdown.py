"""Parses the Markdown of render.py into tokens of markdown-it, marked by kind.

The kind of a paragraph is in its first token's meta: par, note, warning or gallery. A table is ruled
or facts. The caption of a ruled table is in its meta too, as an inline token or None.
"""

import re
from collections.abc import Collection, Sequence
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token


def parse(markdown: str, pictures: Collection[str]) -> list[Token]:
    """The tokens of the whole text. pictures: names of those that exist; others are left out."""
    tokens = parser().parse(markdown)
    for inline in tokens:
        for part in inline.children or ():
            if part.type == "text":  # and not code, which may be copied
                part.content = re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", part.content)
    return _with_captions(_with_kinds(tokens, pictures))


@cache
def parser() -> MarkdownIt:
    """Markdown with tables and without HTML."""
    return MarkdownIt("commonmark", {"html": False}).enable("table")


def picture_name(image: Token) -> str:
    """NAME of the image folder/NAME.png."""
    file = str(image.attrs["src"]).rpartition("/")[2]
    return file.rpartition(".")[0]


def split_at(tokens: Sequence[Token], tag: str) -> list[tuple[Token | None, list[Token]]]:
    """The parts that begin with headings of this tag: (heading's inline token, tokens after it).

    The first part is what comes before all of them, and has no heading.
    """
    heading: Token | None = None
    part: list[Token] = []
    parts = [(heading, part)]
    inside = False
    for index, token in enumerate(tokens):
        is_heading = token.level == 0 and token.tag == tag
        if is_heading and token.type == "heading_open":
            inside = True
            part = []
            parts.append((tokens[index + 1], part))
        elif is_heading and token.type == "heading_close":
            inside = False
        elif not inside:
            part.append(token)
    return parts


def _with_kinds(tokens: Sequence[Token], pictures: Collection[str]) -> list[Token]:
    """The tokens with the kinds of paragraphs and tables; a gallery without a picture is left out."""
    kept: list[Token] = []
    skipped = 0
    for index, token in enumerate(tokens):
        if skipped:
            skipped -= 1
            continue
        if token.type == "table_open":
            token.meta["kind"] = "ruled" if _has_column_names(tokens[index:]) else "facts"
            token.meta["caption"] = None
        if token.type == "paragraph_open":
            inline = tokens[index + 1]
            token.meta["kind"] = _kind_of_paragraph(inline)
            if token.meta["kind"] == "gallery" and not _keep_pictures(inline, pictures):
                skipped = 2  # its content and its end
                continue
        kept.append(token)
    return kept


def _with_captions(tokens: Sequence[Token]) -> list[Token]:
    """The tokens, where each note directly before a ruled table becomes its caption."""
    kept: list[Token] = []
    for token in tokens:
        if token.meta.get("kind") == "ruled" and len(kept) > 2:
            opening, inline, _ = kept[-3:]
            if opening.meta.get("kind") == "note":
                token.meta["caption"] = inline
                del kept[-3:]
        kept.append(token)
    return kept


def _has_column_names(table: Sequence[Token]) -> bool:
    """Whether a cell of a table's head has a text."""
    for token in table:
        if token.type == "thead_close":
            return False
        if token.type == "inline" and token.content:
            return True
    return False


def _kind_of_paragraph(inline: Token) -> str:
    if inline.content.startswith("**Warning:**"):
        return "warning"
    kinds = [part.type for part in inline.children or []]
    if set(kinds) <= {"image", "softbreak"}:
        return "gallery"
    is_note = kinds[0] == "em_open" and kinds[-1] == "em_close" and kinds.count("em_open") == 1
    return "note" if is_note else "par"


def _keep_pictures(inline: Token, pictures: Collection[str]) -> bool:
    """Leave out the images of a gallery that do not exist; returns whether any does."""
    kept: list[Token] = []
    for part in inline.children or []:
        if part.type == "image" and picture_name(part) not in pictures:
            continue
        if part.type == "softbreak" and (not kept or kept[-1].type == "softbreak"):
            continue
        kept.append(part)
    inline.children = kept
    return any(part.type == "image" for part in kept)
