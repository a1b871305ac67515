"""Markdown as one HTML page without scripts, which loads nothing and opens offline."""

import html
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

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
_PART = re.compile(r"^(##?) (.*)\n", re.MULTILINE)  # a heading of the first two levels
_TABLE = re.compile(r"(?:<p><em>(.*)</em></p>\n)?<table>([\s\S]*?)</table>")
_HEADS = re.compile(r"<thead>[\s\S]*?</thead>")
_FIRST_CELL = re.compile(r"<tr>\s*<td([^>]*)>(.*?)</td>")


def to_html(markdown: str, pictures: Mapping[str, str] | None = None) -> str:
    """The Markdown as one HTML page without scripts, which loads nothing and opens offline.

    Args:
        markdown: what `render` returned.
        pictures: the inline SVG of each picture by name, which is trusted. Others are left out.
    """
    _, _, title, head, *parts = _PART.split(markdown)
    links = []
    body = []
    in_appendix = False
    for marks, heading, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        name = parser().renderInline(heading)
        content = _content(text, pictures or {})
        anchor = re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")
        if marks == "#":
            in_appendix = True
        inner = f"<h2>{name}</h2>{content}"
        if in_appendix and marks == "##":
            inner = f"<details><summary><h2>{name}</h2></summary>{content}</details>"
        else:
            links.append(f'<li><a href="#{anchor}">{name}</a></li>')
        body.append(f'<section id="{anchor}">{inner}</section>')
    return _PAGE.format(
        title=parser().renderInline(title),
        style=STYLE_SHEET.read_text(encoding="utf-8"),
        head=_content(head, pictures or {}),
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
    """The blocks of a section, with the conventions of render.py."""
    text = parser().render(markdown, dict(pictures))
    text = _TABLE.sub(_table, text)
    text = re.sub(r"<p>\s*</p>", "", text)
    text = re.sub(r"<p>(<figure>[\s\S]*?)</p>", r'<div class="gallery">\1</div>', text)
    text = text.replace("<p><strong>Not shown:", '<p class="missing"><strong>Not shown:')
    return re.sub(r"<p>(<em>[^<]*</em></p>)", r'<p class="note">\1', text)


def _table(table: re.Match[str]) -> str:
    caption, rows = table.groups(default="")
    if not re.search(r"<th( [^>]*)?>[^<]", rows):  # no column has a name
        return f'<table class="facts">{_HEADS.sub("", rows)}</table>'
    rows = re.sub(r"<th(?=[ >])", '<th scope="col"', rows)
    rows = _FIRST_CELL.sub(r'<tr><th scope="row"\1>\2</th>', rows)
    title = f"<caption>{caption}</caption>" if caption else ""
    label = re.sub(r"<[^>]*>", "", caption) or "table"
    scroll = f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">'
    return f"{scroll}<table>{title}{rows}</table></div>"
