"""report/index.html: one file that opens offline, without scripts, made from the parts of a report."""

from collections.abc import Mapping, Sequence
from pathlib import Path

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
from tinylm.report.heatmaps import head_svg
from tinylm.report.sections import Part
from tinylm.report.wording import escape, percent

_CROWDED = 4  # columns of text
Svgs = Mapping[str, str]


def to_html(blocks: Blocks, svgs: Svgs) -> str:
    """Blocks one after another; `svgs` has the inline pictures by name (pictures.page_svgs), which are trusted."""
    return "".join(_render(block, svgs) for block in blocks)


def _render(block: Block, svgs: Svgs) -> str:
    match block:
        case Heading(text):
            return f"<h3>{escape(text)}</h3>"
        case Paragraph(text, kind):
            return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"
        case Bullets(items):
            return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"
        case Table():
            return _table(block)
        case Facts(pairs, board):
            lines = "".join(
                f"<div><dt>{escape(term)}</dt><dd>{escape(value)}</dd></div>"
                for term, value in pairs
            )
            return f'<dl class="{"tiles" if board else "facts"}">{lines}</dl>'
        case Figure():
            return _figure(block, svgs)
        case Gallery(inner, small):
            shown = to_html(inner, svgs)
            return (
                f'<div class="{"settings" if small else "gallery"}">{shown}</div>' if shown else ""
            )
        case Fold(summary, inner, is_open):
            shown, state = to_html(inner, svgs), " open" if is_open else ""
            return (
                f"<details{state}><summary>{escape(summary)}</summary>{shown}</details>"
                if shown
                else ""
            )
        case Quotes(items):
            lines = "".join(
                f'<li><p class="when">{escape(when)}</p><blockquote>{escape(text)}</blockquote></li>'
                for when, text in items
            )
            return f'<ol class="stories">{lines}</ol>'
        case Shaded():
            return _shaded(block)
        case Maps():
            return _maps(block)


def _table(block: Table) -> str:
    sides = [' class="prose"' if name in block.prose else "" for name in block.heads]
    body = []
    for first, *others in block.rows:
        cells = "".join(
            f'<td{side} data-label="{escape(head)}">{escape(cell)}</td>'
            for side, head, cell in zip(sides[1:], block.heads[1:], others)
        )
        body.append(f'<tr><th{sides[0]} scope="row">{escape(first)}</th>{cells}</tr>')
    crowded = " crowded" if len(block.prose) > _CROWDED else ""
    kind = f' class="stacked{crowded}"' if block.stacked else ""
    head = "".join(
        f'<th{side} scope="col">{escape(name)}</th>' for side, name in zip(sides, block.heads)
    )
    caption = escape(block.caption)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}"><table{kind}>'
        f"<caption>{caption}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _figure(block: Figure, svgs: Svgs) -> str:
    svg = svgs.get(block.name)
    if not svg:
        return ""
    caption = f"<figcaption>{escape(block.caption)}</figcaption>"
    return (
        f'<figure class="wide"><div>{svg}</div>{caption}</figure>'
        if block.wide
        else f"<figure>{svg}{caption}</figure>"
    )


def _shaded(block: Shaded) -> str:
    tokens = " ".join(
        f'<span style="--p:{100 * probability**0.5:.0f}%">{escape(token)}'
        f"<sub>{escape(percent(probability))}</sub></span>"
        for token, probability in block.tokens
    )
    return f'<p class="shaded"><strong>{escape(block.prompt)}</strong> {tokens}</p>'


def _maps(block: Maps) -> str:
    figures = "".join(
        f"<figure>{head_svg(weights, block.words, f'Attention of {title}')}"
        f"<figcaption>{escape(title)}</figcaption></figure>"
        for title, weights in block.panels
    )
    return f'<div class="heads">{figures}</div>'


STYLE_SHEET = Path(__file__).with_name("page.css")
TO_THE_LAB = '<p class="note"><a href="lab.html">Story lab: use this model in the browser</a></p>'
OF_A_RUN = "Drawn from the files in metrics, plots and data; this page computes nothing itself."


def _draw(part: Part, svgs: Mapping[str, str]) -> str:
    return (
        f'<section id="{part.anchor}" aria-labelledby="{part.anchor}-title">'
        f'<h2 id="{part.anchor}-title">{escape(part.title)}</h2>{to_html(part.blocks, svgs)}</section>\n'
    )


def build_page(
    parts: Sequence[Part],
    title: str,
    svgs: Mapping[str, str],
    made_of: str = OF_A_RUN,
    byline: Sequence[str] = (),
    lab: bool = False,
) -> str:
    """The whole page as HTML.

    svgs: the inline figures by name (pictures.page_svgs); made_of: its last line; byline: the lines under the title;
    lab: whether lab.html stands beside it.
    """
    under = "".join(f'<p class="byline">{escape(line)}</p>' for line in byline) + (
        TO_THE_LAB if lab else ""
    )
    bar = "".join(f'<li><a href="#{part.anchor}">{escape(part.short)}</a></li>' for part in parts)
    body = "".join(_draw(part, svgs) for part in parts)
    title = escape(title)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<title>{title}</title>\n<style>\n{STYLE_SHEET.read_text(encoding='utf-8')}</style>\n</head>\n<body>\n"
        f'<header><h1>{title}</h1>{under}</header>\n<nav aria-label="Contents"><ul>{bar}</ul></nav>\n'
        f"<main>\n{body}</main>\n"
        f"<footer><p>{escape(made_of)}</p></footer>\n"
        "</body>\n</html>\n"
    )
