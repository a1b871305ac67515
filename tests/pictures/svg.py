"""What the pictures drawn here share: a frame with its own background, readable on a light and on a dark page."""

from html import escape

# On a background of its own, a picture stays readable where the page does not follow the reader's colour scheme.
FRAME = """
.frame { fill: #f6f8fa; stroke: #d1d9e0; }
@media (prefers-color-scheme: dark) {
  .frame { fill: #151b23; stroke: #3d444d; }
}
"""


def frame(width: float, height: float) -> str:
    return f'<rect class="frame" x="0.5" y="0.5" width="{width - 1:g}" height="{height - 1:g}" rx="8"/>'


def text_at(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'


def picture_of(parts: list[str], width: float, height: float, style: str) -> bytes:
    """A file of these parts in a frame, with the style of the parts."""
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}"'
    top = f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{FRAME}{style}</style>'
    return "\n".join([top, frame(width, height), *parts, "</svg>\n"]).encode()
