"""The style of every picture, and its bytes: SVG for reports and plots/, PNG for other tools.

On the page, colours become CSS variables, so that the same drawing fits the light and the dark style.
The same run gives the same bytes.
"""

import contextlib
import html
import io
import os
import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib import rc_params_from_file, style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.font_manager import get_font_names

from tinylm.base.printable import visible

STYLE: Any = rc_params_from_file(
    Path(__file__).with_name("report.mplstyle"), use_default_template=False
)
# Missing fonts make matplotlib rescan for every text.
STYLE["font.family"] = [name for name in STYLE["font.family"] if name in get_font_names()]
STYLE_SHEET = Path(__file__).with_name("page.css")
_LIGHT = STYLE_SHEET.read_text(encoding="utf-8").partition("@media")[0]
COLOURS: dict[str, str] = dict(re.findall(r"--([\w-]+): (#\w{6})", _LIGHT))
HEAT = COLOURS["heat"]

_WIDE = 504.0  # points (7 inches): a wider picture is scrolled on a phone, not shrunk


@contextlib.contextmanager
def in_style() -> Iterator[None]:
    """Draw in the style of all pictures, whatever the user's matplotlibrc sets.

    A character that no installed font has is an empty box.
    """
    with style.context(STYLE, after_reset=True), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")
        yield


@contextlib.contextmanager
def optional(what: str) -> Iterator[None]:
    """Whatever fails inside costs this picture or page and one line, not the report.

    With TINYLM_DEBUG=1 it is raised.
    """
    try:
        yield
    except Exception as error:
        if os.environ.get("TINYLM_DEBUG") == "1":
            raise
        reason = str(error) or type(error).__name__
        print(f"warning: {what} was left out: {reason}", flush=True)


def finite(frame: pd.DataFrame, columns: Iterable[str]) -> pd.DataFrame:
    """The rows whose numbers in these columns are finite; an axis cannot show others."""
    if frame.empty:
        return frame
    numbers = frame[list(columns)].astype(float)
    is_finite = np.isfinite(numbers.to_numpy()).all(axis=1)
    return frame[is_finite]


class Picture(NamedTuple):
    """A drawing, and its alt text for readers who cannot see it."""

    drawing: Figure
    alt: str


def to_png(drawing: Figure) -> bytes:
    """The drawing as PNG on white, without version or date."""
    drawing.set_dpi(150)
    drawing.set_facecolor("white")
    target = io.BytesIO()
    with in_style():  # Figure.savefig would draw everything twice
        FigureCanvasAgg(drawing).print_png(target, metadata={"Software": None})
    return target.getvalue()


def to_svg(picture: Picture) -> str:
    """The drawing as SVG: transparent, without version or date."""
    drawing = picture.drawing
    drawing.set_facecolor("none")
    for axes in drawing.axes:
        axes.set_facecolor("none")
    target = io.StringIO()
    undated = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with in_style():
        FigureCanvasSVG(drawing).print_svg(target, metadata=undated)
    return target.getvalue()


def to_inline(svg: str, name: str, alt: str) -> str:
    """A picture of `to_svg` as an <svg> of the page: with its colours, its ids made unique by `name`."""
    text = svg[svg.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"(\sid=\"|href=\"#|url\(#)", rf"\g<1>{name}-", text)
    for variable, colour in COLOURS.items():
        text = text.replace(colour, f"var(--{variable})")
    text = re.sub("'?DejaVu Sans'?(, '[^']*')*", "var(--sans)", text)
    text = re.sub(r"\n\s*", " ", text)
    width = re.search(r'<svg[^>]* width="([\d.]+)pt"', text)
    kind = "chart wide" if width and float(width[1]) > _WIDE else "chart"
    tag = f'<svg class="{kind}" role="img" aria-label="{html.escape(visible(alt))}"'
    return text.replace("<svg", tag, 1).strip()
