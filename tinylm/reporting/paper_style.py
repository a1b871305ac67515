"""How the paper looks: page, fonts and styles. DejaVu comes with matplotlib, so that nothing has to be fetched."""

import html
from functools import cache
from pathlib import Path

import matplotlib
from reportlab.lib.colors import Color, HexColor, toColor
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import cm
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfbase.ttfonts import TTFont

from tinylm.reporting.drawing import HEAT, INK, RULE, SOFT
from tinylm.reporting.wording import visible

PAGE, MARGIN = A4, 2 * cm
WIDTH = PAGE[0] - 2 * MARGIN  # of the text, in points
SERIF, SANS = "DejaVuSerif", "DejaVuSans"
INK_COLOUR, SOFT_COLOUR, RULE_COLOUR, WARN_COLOUR = (HexColor(colour) for colour in (INK, SOFT, RULE, "#8a4b08"))
_FACES = ("DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSans", "DejaVuSans-Bold")


@cache
def register_fonts() -> frozenset[int]:
    """Make the fonts known to reportlab; returns the characters that each of them can show."""
    folder, shown = Path(matplotlib.get_data_path()) / "fonts/ttf", []
    for name in _FACES:
        font = TTFont(name, str(folder / f"{name}.ttf"))
        pdfmetrics.registerFont(font)
        shown.append(set(font.face.charToGlyph))
    for family in (SERIF, SANS):
        pdfmetrics.registerFontFamily(family, family, f"{family}-Bold", family, f"{family}-Bold")
    return frozenset(set.intersection(*shown))


def text(value: object) -> str:
    """Text made safe for reportlab's markup; a character that the fonts lack is spelt out as ⟨U+XXXX⟩."""
    shown = register_fonts()
    known = "".join(
        character if ord(character) in shown or character == "\n" else f"⟨U+{ord(character):04X}⟩"
        for character in visible(value)
    )
    return html.escape(known, quote=False)


def bare(value: object) -> str:
    """Text for the canvas, which knows no markup."""
    return html.unescape(text(value))


def width_of(value: str, style: ParagraphStyle) -> float:
    """Width in points of one line."""
    register_fonts()
    return stringWidth(value, style.fontName, style.fontSize)


def shade(share: float) -> Color:
    """The ground of a weight or probability between 0 and 1, as on the page: opacity is its square root."""
    heat, opacity = toColor(HEAT), 0.62 * max(share, 0.0) ** 0.5
    return Color(*(1 - opacity * (1 - part) for part in heat.rgb()))


def _style(name: str, size: float, *, font: str = SERIF, lead: float = 1.35, **more: object) -> ParagraphStyle:
    return ParagraphStyle(
        name, fontName=font, fontSize=size, leading=size * lead, textColor=more.pop("textColor", INK_COLOUR), **more
    )


STYLES: dict[str, ParagraphStyle] = {
    style.name: style
    for style in (
        _style("title", 20, font=f"{SERIF}-Bold", lead=1.2, spaceAfter=4),
        _style("subtitle", 9.5, font=SANS, textColor=SOFT_COLOUR, spaceAfter=14),
        _style("chapter", 15, font=f"{SERIF}-Bold", lead=1.2, spaceBefore=18, spaceAfter=6),
        _style("section", 12, font=f"{SERIF}-Bold", lead=1.2, spaceBefore=14, spaceAfter=5),
        _style("heading", 10, font=f"{SERIF}-Bold", lead=1.25, spaceBefore=9, spaceAfter=4),
        _style("body", 9.5, spaceAfter=6),
        _style("lead", 10.5, spaceAfter=6),
        _style("note", 8, font=SANS, textColor=SOFT_COLOUR, spaceAfter=6),
        _style("missing", 8, font=SANS, textColor=WARN_COLOUR, spaceAfter=6),
        _style("bullet", 9.5, leftIndent=12, bulletIndent=2, spaceAfter=3),
        _style("caption", 8, font=SANS, textColor=SOFT_COLOUR, lead=1.3),
        _style("quote", 9, leftIndent=12, spaceAfter=6, borderColor=RULE_COLOUR),
        _style("map_title", 6.5, font=SANS, lead=1.2, textColor=SOFT_COLOUR),
        _style("shaded", 9.5, lead=1.75, spaceAfter=8),
        _style("contents_0", 9.5, font=f"{SERIF}-Bold", spaceBefore=3),
        _style("contents_1", 9, leftIndent=14),
    )
}


def cell_style(size: float, *, right: bool = False, bold: bool = False, soft: bool = False) -> ParagraphStyle:
    """The style of a table's cell."""
    return ParagraphStyle(
        "cell",
        fontName=f"{SANS}-Bold" if bold else SANS,
        fontSize=size,
        leading=size * 1.3,
        alignment=2 if right else 0,
        textColor=SOFT_COLOUR if soft else INK_COLOUR,
    )
