"""The style of every picture, and its bytes: SVG that follows the page's colours, PNG for plots/.

In SVG a colour of the light page becomes a CSS variable, so that one drawing serves light and dark.
The same run gives the same bytes.
"""

import dataclasses
import html
import io
import re
from pathlib import Path

from matplotlib import rc_context, rc_params_from_file
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tinylm.base.printable import visible

STYLE = rc_params_from_file(Path(__file__).with_name("report.mplstyle"), use_default_template=False)
STYLE_SHEET = Path(__file__).with_name("page.css")
_LIGHT = STYLE_SHEET.read_text(encoding="utf-8").partition("@media")[0]
COLOURS: dict[str, str] = dict(re.findall(r"--([\w-]+): (#\w{6})", _LIGHT))
INK = COLOURS["ink"]
SOFT = COLOURS["soft"]
HEAT = COLOURS["heat"]
SERIES = tuple(COLOURS[f"series-{number}"] for number in range(1, 9))

_WIDE = 7.0  # inches: a wider picture is scrolled on a phone, not shrunk


@dataclasses.dataclass(frozen=True)
class Picture:
    """A drawing and its alt text, for readers who cannot see it."""

    drawing: Figure
    alt: str

    def __post_init__(self) -> None:
        settle(self.drawing)


def new_axes(
    title: str, x_label: str, y_label: str, size: tuple[float, float] | None = None
) -> tuple[Figure, Axes]:
    """An empty drawing with one panel, sized in inches."""
    drawing = Figure(figsize=size)
    axes = drawing.add_subplot()
    axes.set_title(title)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    return drawing, axes


def settle(drawing: Figure) -> Figure:
    """Fix the layout once for all files that are written from it."""
    drawing.draw_without_rendering()
    drawing.set_layout_engine("none")
    return drawing


def to_png(drawing: Figure) -> bytes:
    """The drawing as PNG on white, without version or date."""
    target = io.BytesIO()
    with rc_context(STYLE):
        drawing.savefig(
            target, format="png", dpi=150, facecolor="white", metadata={"Software": None}
        )
    return target.getvalue()


def to_svg(drawing: Figure, name: str, alt: str) -> str:
    """The drawing as an inline <svg>: transparent, its ids made unique by `name`."""
    target = io.StringIO()
    undated = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with rc_context(STYLE):
        drawing.savefig(target, format="svg", transparent=True, metadata=undated)
    text = target.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"(\sid=\"|href=\"#|url\(#)", rf"\g<1>{name}-", text)
    for variable, colour in COLOURS.items():
        text = text.replace(colour, f"var(--{variable})")
    text = re.sub("'?DejaVu Sans'?", "var(--sans)", text)
    text = re.sub(r"\n\s*", " ", text)
    kind = "chart wide" if drawing.get_figwidth() > _WIDE else "chart"
    tag = f'<svg class="{kind}" role="img" aria-label="{html.escape(visible(alt))}"'
    return text.replace("<svg", tag, 1).strip()
