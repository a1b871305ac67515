"""The short paper of a run: at most 12 pages, its longest parts shortened until it fits.

The page, report/index.html, has everything; the paper says so, and each table says how many of its rows it shows.
"""

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence

from tinylm.report.attention_sections import OWN_SENTENCES
from tinylm.report.blocks import Block, Blocks, Fold, Gallery, Heading, Maps, Quotes, Shaded, Table
from tinylm.report.paper import build_paper
from tinylm.report.quality_sections import OWN_PROMPTS
from tinylm.report.sections import Part

PAGES = 12
WHOLE = (
    "summary",
    "data",
    "preprocessing",
    "model",
    "training",
    "conclusions",
)  # sections that are not shortened
DETAILS = (  # headings inside a section, and captions of tables that a picture stands for
    "Attention statistics",
    "How heads differ",
    "What each layer would predict",
    "Heads: best role, and loss without the head",
    "Roles: the head that fits each best",
    "What the first impossible word is, in how many texts",
    "A pair of each",
    "n-grams not in the training split",
    "Continuations with the longest runs",
)
SMALL = 8  # rows: a table of no more is never cut
_LAST = ("settings", "budget", "seeds", "memorised", "enhancements", "pairs")  # left out first
_LONG_ROW = 300  # characters: a row of texts, not of figures
_ALL = 1000
_NOTE = f"A selection of at most {PAGES} pages: report/index.html has every table, text and map of this run"


@dataclasses.dataclass(frozen=True)
class Form:
    """How much is shown: rows of a table, long texts and rows of maps in a row, and which sections are left out.

    Of what section `report` asks for itself: so many prompts, sentences, and rows of maps of each.
    """

    rows: int
    texts: int
    maps: int
    without: Collection[str] = ()
    prompts: int = _ALL
    sentences: int = _ALL
    own_maps: int = _ALL


FORMS = (
    Form(rows=40, texts=8, maps=16),
    Form(rows=24, texts=4, maps=8),
    Form(rows=16, texts=3, maps=4),
    Form(rows=16, texts=2, maps=4, without=_LAST[:1]),
    Form(rows=12, texts=1, maps=4, without=_LAST[:1]),
    Form(rows=8, texts=1, maps=2, without=_LAST[:2]),
    Form(rows=8, texts=1, maps=1, without=_LAST[:3]),
    Form(rows=8, texts=1, maps=1, without=_LAST[:4]),
    Form(rows=8, texts=1, maps=1, without=_LAST[:4], own_maps=4),
    Form(rows=8, texts=1, maps=1, without=_LAST, own_maps=2),
    Form(rows=8, texts=1, maps=1, without=_LAST, prompts=12, sentences=8, own_maps=1),
    Form(rows=8, texts=1, maps=1, without=_LAST, prompts=3, sentences=3, own_maps=1),
)


def pages(paper: bytes) -> int:
    """Number of pages of a PDF that typst wrote."""
    return len(re.findall(rb"/Type\s*/Page\b", paper))


def build_short_paper(
    parts: Sequence[Part],
    title: str,
    subtitle: str,
    pngs: Mapping[str, bytes],
    byline: Sequence[str] = (),
) -> bytes:
    """The paper in the first of FORMS that fits into PAGES pages, else in the last one."""
    paper = b""
    said = ". ".join(text for text in (subtitle, _NOTE) if text) + "."
    for form in FORMS:
        kept = [shortened(part, form) for part in parts if part.anchor not in form.without]
        made = build_paper(kept, title, said, pngs, byline=byline, dense=True)
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
    heading, texts, maps, sentences = "", 0, 0, 0
    for block in blocks:
        if isinstance(block, Heading):
            heading, texts, maps = block.text, 0, 0
        texts += isinstance(block, Shaded)
        maps += isinstance(block, Maps)
        if isinstance(block, Fold) and heading == OWN_SENTENCES:
            sentences += 1
            kept += [_first_maps(block, form.own_maps)] if sentences <= form.sentences else []
            continue
        if isinstance(block, Fold):
            inner = sum(isinstance(one, Maps) for one in block.blocks)
            room, maps = form.maps - maps, maps + inner
            if inner == 0 or room < min(inner, form.maps):
                continue
        if (
            heading not in DETAILS
            and texts <= form.texts
            and (not isinstance(block, Maps) or maps <= form.maps)
        ):
            kept += _fitting(block, form)
    return kept


def _first_maps(fold: Fold, most: int) -> Fold:
    """A fold with so many rows of maps, and as many in each fold inside it."""
    kept: Blocks = []
    rows = 0
    for block in fold.blocks:
        rows += isinstance(block, Maps)
        if isinstance(block, Fold):
            kept.append(_first_maps(block, most))
        elif not isinstance(block, Maps) or rows <= most:
            kept.append(block)
    return dataclasses.replace(fold, blocks=kept)


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
        case Table():
            return [_cut(block, _most_rows(block, form))]
    return [block]


def _most_rows(table: Table, form: Form) -> int:
    if table.caption == OWN_PROMPTS:
        return form.prompts
    if max((sum(map(len, row)) for row in table.rows), default=0) > _LONG_ROW:
        return form.texts
    return max(form.rows, SMALL)


def _cut(table: Table, most: int) -> Table:
    if len(table.rows) <= most:
        return table
    caption = f"{table.caption} (the first {most} of {len(table.rows)})"
    return dataclasses.replace(table, caption=caption, rows=table.rows[:most])


def _spread(items: Sequence[tuple[str, str]], most: int) -> list[tuple[str, str]]:
    """At most so many, from first to last at even distances; the last one alone if there is room for one."""
    if len(items) <= most:
        return list(items)
    last = len(items) - 1
    return (
        [items[round(last * place / (most - 1))] for place in range(most)]
        if most > 1
        else [items[last]]
    )
