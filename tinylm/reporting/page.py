"""report/index.html: one file that opens offline, without scripts, made from the parts of a report."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tinylm.reporting.html import to_html
from tinylm.reporting.sections import Part
from tinylm.reporting.wording import escape

STYLE_SHEET = Path(__file__).with_name("page.css")
OF_A_RUN = "Drawn from the files in metrics, plots and data; this page computes nothing itself."


def _draw(part: Part, svgs: Mapping[str, str]) -> str:
    return (
        f'<section id="{part.anchor}" aria-labelledby="{part.anchor}-title">'
        f'<h2 id="{part.anchor}-title">{escape(part.title)}</h2>{to_html(part.blocks, svgs)}</section>\n'
    )


def build_page(parts: Sequence[Part], title: str, svgs: Mapping[str, str], made_of: str = OF_A_RUN) -> str:
    """The whole page as HTML; `svgs`: the inline figures by name (pictures.page_svgs), `made_of`: its last line."""
    bar = "".join(f'<li><a href="#{part.anchor}">{escape(part.short)}</a></li>' for part in parts)
    body = "".join(_draw(part, svgs) for part in parts)
    title = escape(title)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<title>{title}</title>\n<style>\n{STYLE_SHEET.read_text(encoding='utf-8')}</style>\n</head>\n<body>\n"
        f'<header><h1>{title}</h1></header>\n<nav aria-label="Contents"><ul>{bar}</ul></nav>\n'
        f"<main>\n{body}</main>\n"
        f"<footer><p>{escape(made_of)}</p></footer>\n"
        "</body>\n</html>\n"
    )
