"""The look of every figure, and its bytes: SVG that follows the page's colours, PNG for plots/. The same run gives the
same bytes.

The colours below are those of the light page. In SVG each becomes a CSS variable of page.css, so one drawing
serves light, dark and print; text stays text in the page's own font.
"""

import dataclasses
import io
import re
from collections.abc import Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from tinylm.report.wording import escape

INK, SOFT, RULE, HEAT = "#1f2329", "#5a6370", "#d7dbe1", "#2f7fc4"
SERIES = ("#1c6cb0", "#c4560b", "#16835a", "#8548ad", "#927000", "#1b8aa5", "#b83a63", "#66707c")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_VARIABLES = {INK: "--ink", SOFT: "--soft", RULE: "--rule", HEAT: "--heat"} | {
    colour: f"--series-{number}" for number, colour in enumerate(SERIES, start=1)
}

_WIDE = 7.0  # inches: a wider figure is scrolled on a phone, not shrunk

STYLE: dict[Any, Any] = {
    "svg.hashsalt": "tinylm",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": SOFT,
    "axes.linewidth": 0.7,
    "axes.labelcolor": SOFT,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "lines.linewidth": 1.8,
    "figure.constrained_layout.use": True,
}


def new_axes(
    title: str, x_label: str, y_label: str, size: tuple[float, float] = (5.0, 3.3)
) -> tuple[Figure, Axes]:
    """An empty figure with one panel, sized in inches; small, so that its text stays legible on a phone."""
    drawing = Figure(figsize=size)
    axes = drawing.add_subplot()
    axes.set_title(title)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    return drawing, axes


def count_axis(axes: Axes) -> None:
    """Whole numbers on the x axis, thousands and millions as 500 k and 1.5 M."""
    axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))


def add_legend(drawing: Figure, names: Sequence[str]) -> None:
    """The names of curves or points below the picture, in as many columns as fit."""
    longest = max(map(len, names), default=1)
    columns = max(1, min(len(names), 60 // (longest + 6)))
    drawing.legend(loc="outside lower center", ncols=columns, frameon=False)


def settle(drawing: Figure) -> Figure:
    """Fix the layout once for all files that are written from it."""
    drawing.draw_without_rendering()
    drawing.set_layout_engine("none")
    return drawing


def to_png(drawing: Figure) -> bytes:
    """The figure as PNG on white, without version or date."""
    target = io.BytesIO()
    with rc_context(STYLE):
        drawing.savefig(
            target, format="png", dpi=150, facecolor="white", metadata={"Software": None}
        )
    return target.getvalue()


def to_svg(drawing: Figure, name: str, alt: str) -> str:
    """The figure as an inline <svg>: transparent, colours as CSS variables, ids made unique by `name`."""
    target = io.StringIO()
    nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with rc_context(STYLE):
        drawing.savefig(target, format="svg", transparent=True, metadata=nothing)
    text = target.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.DOTALL)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    text = re.sub(r"(\sid=\"|href=\"#|url\(#)", rf"\g<1>{name}-", text)
    text = text.replace("'DejaVu Sans'", "var(--sans)").replace("DejaVu Sans", "var(--sans)")
    text = re.sub(r'\sxmlns(:xlink)?="[^"]*"|\sversion="1.1"', "", text).replace(
        "xlink:href", "href"
    )
    text = re.sub(r"\n\s*", " ", text)
    kind = "chart wide" if drawing.get_figwidth() > _WIDE else "chart"
    tag = f'<svg class="{kind}" role="img" aria-label="{escape(alt)}"'
    return text.replace("<svg", tag, 1).strip()


@dataclasses.dataclass(frozen=True)
class Picture:
    """A drawn figure and its alt text, for readers who cannot see it."""

    figure: Figure
    alt: str

    def __post_init__(self) -> None:
        settle(self.figure)
