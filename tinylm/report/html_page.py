"""Markdown as one HTML page without scripts, which loads nothing and opens offline."""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from markdown_it.tree import SyntaxTreeNode

from tinylm.report import markdown_tree as tree

STYLE_SHEET = Path(__file__).with_name("page.css")


def to_html(
    markdown: str, pictures: Mapping[str, str] | None = None, *, open_folds: bool = False
) -> str:
    """The Markdown as one HTML page without scripts, which loads nothing and opens offline.

    Args:
        markdown: what `render` returned.
        pictures: the inline SVG or <img> of each picture by name, which are trusted. Others are left out.
        open_folds: whether folds are open at first.
    """
    blocks = tree.parse(markdown)
    titles = [tree.plain_text(block) for block in blocks if tree.level(block) == 1]
    head = ""
    navigation: list[str] = []
    body: list[str] = []
    in_appendix = False
    for section in _sections(blocks):
        heading = section[0]
        level = tree.level(heading)
        if level not in (1, tree.SECTION):
            body.append(_html_of_section(section, pictures or {}, open_folds))
            continue
        title = _html_of(heading.children[0])
        content = _html_of_section(section[1:], pictures or {}, open_folds)
        if level == tree.SECTION:
            anchor = _anchor(heading)
            navigation.append(f'<li><a href="#{anchor}">{title}</a></li>')
            titled = f'<h2 id="{anchor}-title">{title}</h2>'
            body.append(_section(anchor, titled, content, in_appendix, open_folds))
        elif not head:
            head = f"<h1>{title}</h1>{content}"
        else:
            body.append(f'<h2 class="part">{title}</h2>{content}')
            in_appendix = True
    return _PAGE.format(
        title=html.escape(titles[0] if titles else ""),
        style=STYLE_SHEET.read_text(encoding="utf-8"),
        head=head,
        navigation="".join(navigation),
        body="\n".join(body),
    )


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
<header>{head}</header>
<nav aria-label="Contents"><ul>{navigation}</ul></nav>
<main>
{body}
</main>
</body>
</html>
"""


def _anchor(heading: SyntaxTreeNode) -> str:
    return re.sub(r"[^a-z0-9]+", "-", tree.plain_text(heading).lower()).strip("-")


def _section(anchor: str, title: str, content: str, is_folded: bool, is_open: bool) -> str:
    if is_folded:
        state = " open" if is_open else ""
        inner = f"<details{state}><summary>{title}</summary>{content}</details>"
    else:
        inner = title + content
    return f'<section id="{anchor}" aria-labelledby="{anchor}-title">{inner}</section>'


def _sections(blocks: Sequence[SyntaxTreeNode]) -> Iterator[list[SyntaxTreeNode]]:
    """The blocks, a new list for each heading of the first two levels."""
    section: list[SyntaxTreeNode] = []
    for block in blocks:
        if tree.level(block) in (1, tree.SECTION) and section:
            yield section
            section = []
        section.append(block)
    if section:
        yield section


def _html_of(block: SyntaxTreeNode) -> str:
    """What markdown-it makes of a block or of inline text."""
    parser = tree.parser()
    return str(parser.renderer.render(block.to_tokens(), parser.options, {}))


def _html_of_section(
    blocks: Sequence[SyntaxTreeNode], pictures: Mapping[str, str], open_folds: bool
) -> str:
    parts = []
    in_fold = False
    for block, caption in tree.with_captions(blocks):
        level = tree.level(block)
        if in_fold and level is not None and level <= tree.FOLD:
            parts.append("</details>")
            in_fold = False
        if level == tree.FOLD:
            state = " open" if open_folds else ""
            summary = _html_of(block.children[0])
            parts.append(f"<details{state}><summary>{summary}</summary>")
            in_fold = True
        else:
            parts.append(_html_of_block(block, caption, pictures))
    if in_fold:
        parts.append("</details>")
    return "".join(parts)


def _html_of_block(
    block: SyntaxTreeNode, caption: SyntaxTreeNode | None, pictures: Mapping[str, str]
) -> str:
    if images := tree.images(block):
        drawn = [image for image in images if tree.picture_name(image) in pictures]
        drawings = "".join(_picture(image, pictures[tree.picture_name(image)]) for image in drawn)
        return f'<div class="gallery">{drawings}</div>' if len(drawn) > 1 else drawings
    text = _html_of(block)
    if block.type == "table":
        return _html_of_table(block, caption, text)
    if tree.is_warning(block):
        return text.replace("<p>", '<p class="missing">', 1)
    if tree.is_note(block):
        return text.replace("<p>", '<p class="note">', 1)
    return text


def _picture(picture: SyntaxTreeNode, drawn: str) -> str:
    caption = html.escape(tree.picture_caption(picture))
    return f"<figure><div>{drawn}</div><figcaption>{caption}</figcaption></figure>"


def _html_of_table(block: SyntaxTreeNode, caption: SyntaxTreeNode | None, text: str) -> str:
    if tree.is_facts(block):
        without_heads = re.sub(r"<thead>.*?</thead>\s*", "", text, flags=re.DOTALL)
        return without_heads.replace("<table>", '<table class="facts">', 1)
    label, title = "table", ""
    if caption is not None:
        label = html.escape(tree.plain_text(caption))
        title = f"<caption>{label}</caption>"
    text = text.replace("<th", '<th scope="col"').replace('<th scope="col"ead', "<thead")
    text = re.sub(r"<tr>\s*<td([^>]*)>(.*?)</td>", r'<tr><th scope="row"\1>\2</th>', text)
    text = text.replace("<table>", f"<table>{title}", 1)
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">{text}</div>'
