"""Markdown as one HTML page without scripts, which loads nothing and opens offline."""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from tinylm.report.markdown import parse, parser, picture_name, split_at

LARGE_FACTS = 4  # at most so many facts are shown large; pdf.typ has the same number
STYLE_SHEET = Path(__file__).with_name("page.css")
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<header><h1>{title}</h1>{head}</header>
<nav aria-label="Contents"><ul>{links}</ul></nav>
<main>
{body}
</main>
</body>
</html>
"""


def to_html(markdown: str, pictures: Mapping[str, str] | None = None) -> str:
    """The Markdown as one HTML page without scripts, which loads nothing and opens offline.

    Args:
        markdown: what `render` returned.
        pictures: the inline SVG of each picture by name, which is trusted. Others are left out.
    """
    page = _Page(pictures or {})
    _, (title, all_tokens) = split_at(parse(markdown, page.pictures), "h1")
    (_, head), *sections = split_at(all_tokens, "h2")
    links = []
    body = []
    for heading, tokens in sections:
        name = page.render_words(heading)
        anchor = re.sub(r"[^a-z0-9]+", "-", heading.content.lower()).strip("-") if heading else ""
        links.append(f'<li><a href="#{anchor}">{name}</a></li>')
        body.append(
            f'<section id="{anchor}"><h2>{name}</h2>{page.render_section(tokens)}</section>'
        )
    return _PAGE.format(
        title=page.render_words(title),
        style=STYLE_SHEET.read_text(encoding="utf-8"),
        head=page.render_section(head),
        links="".join(links),
        body="\n".join(body),
    )


class _Page(RendererHTML):
    """Renders tokens of markdown.py as HTML. In markdown-it, a method named after a token renders it.

    pictures: the SVG of each picture by name.
    """

    def __init__(self, pictures: Mapping[str, str]) -> None:
        super().__init__()
        self.pictures = pictures

    def render_section(self, tokens: Sequence[Token]) -> str:
        """The blocks of a section. What follows a heading h4 is folded, up to the next heading."""
        (_, first), *folded = split_at(tokens, "h4")
        blocks = [self.render_blocks(first)]
        for heading, part in folded:
            inside = list(takewhile(lambda token: token.type != "heading_open", part))
            summary = f"<summary>{self.render_words(heading)}</summary>"
            blocks.append(f"<details>{summary}{self.render_blocks(inside)}</details>")
            blocks.append(self.render_blocks(part[len(inside) :]))
        return "".join(blocks)

    def render_blocks(self, tokens: Sequence[Token]) -> str:
        """The blocks as HTML, none of them folded."""
        return self.render(list(_for_html(tokens)), parser().options, {})

    def render_words(self, token: Token | None) -> str:
        """The text of a heading or caption."""
        children = [] if token is None else token.children or []
        return self.renderInline(children, parser().options, {})

    def image(self, tokens: Sequence[Token], index: int, options: OptionsDict, env: Any) -> str:
        image = tokens[index]
        drawn = self.pictures.get(picture_name(image))
        if drawn is None:
            return ""
        caption = html.escape(str(image.attrs.get("title", "")))
        return f"<figure><div>{drawn}</div><figcaption>{caption}</figcaption></figure>"

    def table_open(
        self, tokens: Sequence[Token], index: int, options: OptionsDict, env: Any
    ) -> str:
        table = tokens[index]
        if table.meta["kind"] == "facts":
            return self.renderToken(tokens, index, options, env)
        title = ""
        label = ""
        if table.meta["caption"] is not None:
            words = table.meta["caption"].children[1:-1]  # between the marks of emphasis
            title = f"<caption>{self.renderInline(words, options, env)}</caption>"
            label = "".join(escapeHtml(word.content) for word in words)
        scroll = f'<div class="scroll" tabindex="0" role="region" aria-label="{label or "table"}">'
        return f"{scroll}<table>{title}\n"

    def table_close(
        self, tokens: Sequence[Token], index: int, options: OptionsDict, env: Any
    ) -> str:
        is_facts = tokens[index].meta["kind"] == "facts"
        return "</table>\n" if is_facts else "</table></div>\n"

    def tr_open(self, tokens: Sequence[Token], index: int, options: OptionsDict, env: Any) -> str:
        names_row = tokens[index + 1].attrs.get("scope") == "row"
        return "<tr>" if names_row else "<tr>\n"


def _for_html(tokens: Sequence[Token]) -> Iterator[Token]:
    """The tokens with the tags and attributes of the page."""
    rest = iter(tokens)
    is_quoted = False
    paragraph_tag = "p"
    for token in rest:
        match token.type:
            case "table_open":
                table = [token, *takewhile(lambda inner: inner.type != "table_close", rest)]
                yield from _table(table)
                yield Token("table_close", "table", -1, block=True, meta=token.meta)
                continue
            case "blockquote_open" | "blockquote_close":
                is_quoted = token.nesting == 1
            case "inline" if is_quoted:
                for part in token.children or []:
                    if part.tag == "strong":
                        part.tag = "mark"
            case "paragraph_open":
                kind = token.meta["kind"]
                paragraph_tag = "div" if kind == "gallery" else "p"
                token.tag = paragraph_tag
                if kind != "par":
                    token.attrs["class"] = kind
            case "paragraph_close":
                token.tag = paragraph_tag
        yield token


def _table(table: Sequence[Token]) -> Sequence[Token]:
    """A table of facts without its head; any other with head and first cells marked as names."""
    types = [token.type for token in table]
    if table[0].meta["kind"] == "facts":
        body = table[types.index("thead_close") + 1 :]
        is_large = types.count("tr_open") - 1 <= LARGE_FACTS  # one is the head
        table[0].attrs["class"] = "facts tiles" if is_large else "facts"
        return [table[0], *body]
    for index, token in enumerate(table):
        if token.type == "th_open":
            token.attrs = {"scope": "col", **token.attrs}
        if token.type == "td_open" and types[index - 1] == "tr_open":
            token.attrs = {"scope": "row", **token.attrs}
            end = table[index + 2]  # after the cell's content
            token.tag = end.tag = "th"
    return table
