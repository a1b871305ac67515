"""Markdown as one HTML page without scripts, which loads nothing and opens offline."""

import html
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

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
_FOLDED = re.compile(r"^#### (.*)\n([\s\S]*?)(?=^###? |^#### |\Z)", re.MULTILINE)
_QUOTE = re.compile(r"<blockquote>[\s\S]*?</blockquote>")
_TABLE = re.compile(r"(?:<p><em>(.*)</em></p>\n)?<table>([\s\S]*?)</table>")
_HEADS = re.compile(r"<thead>[\s\S]*?</thead>")
_FIRST_CELL = re.compile(r"<tr>\s*<td([^>]*)>(.*?)</td>")


def to_html(markdown: str, pictures: Mapping[str, str] | None = None) -> str:
    """The Markdown as one HTML page without scripts, which loads nothing and opens offline.

    Args:
        markdown: what `render` returned.
        pictures: the inline SVG of each picture by name, which is trusted. Others are left out.
    """
    drawn = pictures or {}
    top, *sections = re.split(r"^## ", markdown, flags=re.MULTILINE)
    title, _, head = top.removeprefix("# ").partition("\n")
    links = []
    body = []
    for section in sections:
        heading, _, text = section.partition("\n")
        name = parser().renderInline(heading)
        anchor = re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")
        links.append(f'<li><a href="#{anchor}">{name}</a></li>')
        content = _content(text, drawn)
        body.append(f'<section id="{anchor}"><h2>{name}</h2>{content}</section>')
    return _PAGE.format(
        title=parser().renderInline(title),
        style=STYLE_SHEET.read_text(encoding="utf-8"),
        head=_content(head, drawn),
        links="".join(links),
        body="\n".join(body),
    )


@cache
def parser() -> MarkdownIt:
    """Markdown with tables and without HTML; pictures are taken from the environment."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    markdown.add_render_rule("image", _image)
    return markdown


def _image(renderer: Any, tokens: Any, index: int, options: Any, pictures: Any) -> str:
    image = tokens[index]
    drawn = pictures.get(Path(image.attrs["src"]).stem)
    if drawn is None:
        return ""
    caption = html.escape(image.attrs.get("title", ""))
    return f"<figure><div>{drawn}</div><figcaption>{caption}</figcaption></figure>"


def _content(markdown: str, pictures: Mapping[str, str]) -> str:
    """The blocks of a section, some of them folded."""
    first, *rest = _FOLDED.split(markdown)
    blocks = [_blocks(first, pictures)]
    for title, folded, after in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        summary = f"<summary>{parser().renderInline(title)}</summary>"
        blocks.append(f"<details>{summary}{_blocks(folded, pictures)}</details>")
        blocks.append(_blocks(after, pictures))
    return "".join(blocks)


def _blocks(markdown: str, pictures: Mapping[str, str]) -> str:
    """Blocks of Markdown, with the conventions of render.py."""
    text = parser().render(markdown, dict(pictures))
    text = _TABLE.sub(_table, text)
    text = _QUOTE.sub(lambda quote: quote[0].replace("strong>", "mark>"), text)
    text = re.sub(r"<p>\s*</p>", "", text)
    text = re.sub(r"<p>(<figure>[\s\S]*?)</p>", r'<div class="gallery">\1</div>', text)
    text = text.replace("<p><strong>Warning:", '<p class="warning"><strong>Warning:')
    return re.sub(r"<p>(<em>[^<]*</em></p>)", r'<p class="note">\1', text)


def _table(table: re.Match[str]) -> str:
    caption, rows = table.groups(default="")
    if not re.search(r"<th( [^>]*)?>[^<]", rows):  # no column has a name
        kind = (
            "facts tiles" if rows.count("<tr>") <= 1 + LARGE_FACTS else "facts"
        )  # one is the head
        return f'<table class="{kind}">{_HEADS.sub("", rows)}</table>'
    rows = re.sub(r"<th(?=[ >])", '<th scope="col"', rows)
    rows = _FIRST_CELL.sub(r'<tr><th scope="row"\1>\2</th>', rows)
    title = f"<caption>{caption}</caption>" if caption else ""
    label = re.sub(r"<[^>]*>", "", caption) or "table"
    scroll = f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">'
    return f"{scroll}<table>{title}{rows}</table></div>"
