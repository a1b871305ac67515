"""Charts of a finished run that README and truth.md show, in the colours of a light and a dark page."""

import re
from pathlib import Path

from tests.pictures.noted import svg_note
from tests.pictures.svg import FRAME, frame, text_at
from tinylm.base import paths
from tinylm.report.drawing import STYLE_SHEET, to_inline

CHARTS = {"truth_story": "truth", "truth_decoding": "decoding"}  # of a run: their names here
CAPTIONS = {"truth": "only blue: the story allowed no other word"}
CAPTION_HEIGHT = 16
MARGIN = 8
VARIABLES = STYLE_SHEET.read_text(encoding="utf-8").partition("* {")[0]  # of both styles
STYLE = f"{FRAME}.caption {{ font: 8.5px var(--sans); fill: var(--ink); }}"


def on_its_own(svg: str, name: str, run: str) -> str:
    """The chart as a file that brings the page's colours, a background and its caption along."""
    inline = to_inline(svg, name, alt="")
    # The default recipe's settings, for readers who do not know params.yaml.
    inline = inline.replace(">section decode<", ">min-p 0.1 (default)<")
    tag, _, content = inline.partition(">")
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', tag)
    assert size is not None, tag
    width, height = map(float, size.groups())
    content = content.removesuffix("</svg>")
    if caption := CAPTIONS.get(name):
        height += CAPTION_HEIGHT
        content += text_at(width / 2, height - 4, caption, "caption", "middle")
    outer = f'viewBox="0 0 {width + 2 * MARGIN:g} {height + 2 * MARGIN:g}"'
    tag = re.sub(r' height="[^"]*"', "", tag).replace(size[0], outer)
    head = f"{svg_note(run)}<style>{VARIABLES}{STYLE}</style>"
    framed = frame(width + 2 * MARGIN, height + 2 * MARGIN)
    return f'{tag}>{head}{framed}<g transform="translate({MARGIN} {MARGIN})">{content}</g></svg>\n'


def pictures(run: str) -> dict[str, bytes]:
    """Reads the charts of the run in this folder."""
    found = {}
    for drawn, name in CHARTS.items():
        svg = Path(paths.PICTURES, f"{drawn}.svg").read_text(encoding="utf-8")
        found[f"{name}.svg"] = on_its_own(svg, name, run).encode()
    return found
