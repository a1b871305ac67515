"""A comparison as one HTML file that opens offline, in the look of the report."""

import re

from tinylm.compare.comparison import Comparison
from tinylm.compare.pictures import difference_svgs
from tinylm.compare.scaling_section import scaling_gallery, scaling_svgs
from tinylm.compare.sections import LABELS, SCALING, SIDE_BY_SIDE, sections
from tinylm.compare.sweep import Scaling
from tinylm.reporting.blocks import Blocks, gallery, picture
from tinylm.reporting.page import build_page
from tinylm.reporting.sections import Part

_CAPTION = "Line: 95 % interval. Shade, where seeds were run: how far two runs differ by their seeds alone."
_MADE_OF = "Read from the revisions' own files, in git and in DVC's cache; made by tinylm compare."


def to_html(comparison: Comparison, scaling: Scaling | None = None) -> str:
    """The page; `scaling`: of a sweep."""
    first, svgs = comparison.runs[0].name, difference_svgs(comparison)
    more = {f"Against {first}": gallery(*(picture(metric, f"{LABELS[metric]}. {_CAPTION}") for metric in svgs))}
    if scaling is not None:
        more[SCALING] = scaling_gallery(scaling.law)
        svgs |= scaling_svgs(scaling.law)
    parts = [_part(title, blocks + more.get(title, [])) for title, blocks in sections(comparison, scaling)]
    names = [run.name for run in comparison.runs]
    others = ", ".join(names[1:]) if len(names) <= SIDE_BY_SIDE else f"{len(names) - 1} runs"
    return build_page(parts, f"{others} against {first}", svgs, _MADE_OF)


def _part(title: str, blocks: Blocks) -> Part:
    anchor = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    return Part(anchor, title, title, blocks)
