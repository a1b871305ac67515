"""The paper of a run without the published systems: at most 12 pages, its longest parts shortened until it fits.

The page, report/index.html, has everything; the paper says so, and each table says how many of its rows it shows.
"""

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence

from tinylm.reporting.blocks import Block, Blocks, Fold, Gallery, Heading, Maps, Quotes, Shaded, Table
from tinylm.reporting.paper import build_paper
from tinylm.reporting.sections import Part

PAGES = 12
OF_OTHERS = ("published", "ledger")
WHOLE = ("summary", "data", "preprocessing", "model", "training", "conclusions")  # sections that are not shortened
DETAILS = (  # headings inside a section, and captions of tables that a picture stands for
    "Attention statistics",
    "How heads differ",
    "What each layer would predict",
    "What the first impossible word is, in how many texts",
    "A pair of each",
    "n-grams not in the training split",
    "Roles: the head that fits each best",
)
_LAST = ("settings", "literature", "budget", "seeds", "memorised", "enhancements")
_LONG_ROW = 300  # characters: a row of texts, not of figures
_NOTE = f"A selection of at most {PAGES} pages: report/index.html has every table, text and map of this run."


@dataclasses.dataclass(frozen=True)
class Form:
    """How much is shown: rows of a table, long texts and rows of maps in a row, and which sections are left out."""

    rows: int
    texts: int
    maps: int
    without: Collection[str] = ()


FORMS = (
    Form(rows=40, texts=8, maps=16),
    Form(rows=24, texts=4, maps=8),
    Form(rows=16, texts=3, maps=4, without=_LAST[:1]),
    Form(rows=16, texts=2, maps=4, without=_LAST[:1]),
    Form(rows=12, texts=2, maps=2, without=_LAST[:1]),
    Form(rows=8, texts=2, maps=2, without=_LAST[:1]),
    Form(rows=8, texts=1, maps=1, without=_LAST[:3]),
    Form(rows=4, texts=1, maps=1, without=_LAST[:3]),
    Form(rows=2, texts=1, maps=1, without=_LAST),
)


def pages(paper: bytes) -> int:
    """Number of pages of a PDF that typst wrote."""
    return len(re.findall(rb"/Type\s*/Page\b", paper))


def build_short_paper(
    parts: Sequence[Part], title: str, subtitle: str, pngs: Mapping[str, bytes], byline: Sequence[str] = ()
) -> bytes:
    """The paper in the first of FORMS that fits into PAGES pages, else in the last one."""
    own, paper = [part for part in parts if part.anchor not in OF_OTHERS], b""
    for form in FORMS:
        kept = [shortened(part, form) for part in own if part.anchor not in form.without]
        made = build_paper(kept, title, subtitle, pngs, byline=[*byline, _NOTE], dense=True)
        assert isinstance(made, bytes)
        paper = made
        if pages(paper) <= PAGES:
            break
    return paper


def shortened(part: Part, form: Form) -> Part:
    """A section with as much as the form allows."""
    if part.anchor in WHOLE:
        return part
    return dataclasses.replace(part, blocks=_shortened(part.blocks, form))


def _shortened(blocks: Blocks, form: Form) -> Blocks:
    """Headings in DETAILS go with all that follows them, folds without maps too; of the rest, as much as fits."""
    kept: Blocks = []
    shown, texts, maps = True, 0, 0
    for block in blocks:
        if isinstance(block, Heading):
            shown, texts, maps = block.text not in DETAILS, 0, 0
        texts += isinstance(block, Shaded)
        maps += isinstance(block, Maps)
        if isinstance(block, Fold):
            inner = sum(isinstance(one, Maps) for one in block.blocks)
            room, maps = form.maps - maps, maps + inner
            if inner == 0 or room < min(inner, form.maps):
                continue
        if shown and texts <= form.texts and (not isinstance(block, Maps) or maps <= form.maps):
            kept += _fitting(block, form)
    return kept


def _fitting(block: Block, form: Form) -> Blocks:
    match block:
        case Gallery(inner, False):
            return [Gallery(_shortened(inner, form), False)]
        case Fold():
            return [dataclasses.replace(block, blocks=_shortened(block.blocks, form))]
        case Quotes(items):
            return [Quotes(_spread(items, form.texts))]
        case Table(caption=caption) if caption in DETAILS:
            return []
        case Table(rows=rows):
            long = max((sum(map(len, row)) for row in rows), default=0) > _LONG_ROW
            most = form.texts if long else form.rows
            if len(rows) <= most:
                return [block]
            caption = f"{block.caption} (the first {most} of {len(rows)})"
            return [dataclasses.replace(block, caption=caption, rows=rows[:most])]
    return [block]


def _spread(items: Sequence[tuple[str, str]], most: int) -> list[tuple[str, str]]:
    """At most so many, from first to last at even distances; the last one alone if there is room for one."""
    if len(items) <= most:
        return list(items)
    last = len(items) - 1
    return [items[round(last * place / (most - 1))] for place in range(most)] if most > 1 else [items[last]]
