"""report/report.pdf: the sections of the page as a paper to hand in. The same run gives the same bytes."""

import io
from collections.abc import Mapping, Sequence

from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import BaseDocTemplate, Flowable, Frame, PageBreak, PageTemplate, Paragraph, Spacer
from reportlab.platypus.tableofcontents import TableOfContents

from tinylm.reporting.paper_blocks import Setter, kept_together, leading
from tinylm.reporting.paper_style import MARGIN, PAGE, SANS, SOFT_COLOUR, STYLES, WIDTH, bare, register_fonts, text
from tinylm.reporting.paper_tables import PLAIN
from tinylm.reporting.sections import Part

CHAPTERS = (
    ("Method", ("data", "model", "training")),
    (
        "Results",
        (
            "curves",
            "learns",
            "evaluation",
            "seeds",
            "samples",
            "memorised",
            "beams",
            "cache",
            "accumulation",
            "checkpointing",
            "attention",
        ),
    ),
    ("Published systems", ("published", "ledger")),
    ("Discussion", ("conclusions",)),
    ("Appendix", ("budget", "settings", "literature")),
)


class _Paper(BaseDocTemplate):
    """Pages with their number, and contents that headings report to."""

    def __init__(self, target: io.BytesIO, title: str):
        super().__init__(
            target,
            pagesize=PAGE,
            leftMargin=MARGIN,
            rightMargin=MARGIN,
            topMargin=MARGIN,
            bottomMargin=MARGIN,
            title=bare(title),
            author="tinylm",
            invariant=1,
        )
        self._head = bare(title)
        frame = Frame(
            MARGIN,
            MARGIN,
            WIDTH,
            PAGE[1] - 2 * MARGIN,
            leftPadding=0,
            rightPadding=0,
            topPadding=0,
            bottomPadding=0,
            id="text",
        )
        self.addPageTemplates(PageTemplate("page", [frame], onPage=self._foot))

    def _foot(self, canvas: Canvas, document: BaseDocTemplate) -> None:
        canvas.setFont(SANS, 8)
        canvas.setFillColor(SOFT_COLOUR)
        canvas.drawString(MARGIN, MARGIN / 2, self._head if len(self._head) < 90 else f"{self._head[:89]}…")
        canvas.drawRightString(PAGE[0] - MARGIN, MARGIN / 2, str(canvas.getPageNumber()))

    def afterFlowable(self, flowable: Flowable) -> None:
        """Called by reportlab: headings enter the contents and the outline."""
        key = getattr(flowable, "contents_key", None)
        if key is None:
            return
        level = 0 if flowable.style.name == "chapter" else 1
        words = flowable.getPlainText()
        self.canv.bookmarkPage(key)
        self.canv.addOutlineEntry(words, key, level, closed=level > 0)
        self.notify("TOCEntry", (level, text(words), self.page, key))


def _title(words: str, style: str, key: str) -> Flowable:
    title = Paragraph(f'<a name="{key}"/>{text(words)}', STYLES[style])
    title.contents_key = key
    return leading(title)


def _chapters(parts: Mapping[str, Part], setter: Setter) -> list[Flowable]:
    story: list[Flowable] = []
    number = 0
    for name, anchors in CHAPTERS:
        written = [parts[anchor] for anchor in anchors if anchor in parts]
        if not written:
            continue
        number += 1
        story.append(_title(f"{number} {name}", "chapter", f"chapter-{number}"))
        for place, part in enumerate(written, start=1):
            story.append(_title(f"{number}.{place} {part.title}", "section", part.anchor))
            story += setter.set(part.blocks)
    return story


def build_paper(parts: Sequence[Part], title: str, subtitle: str, pngs: Mapping[str, bytes]) -> bytes:
    """The whole paper; `pngs` holds the pictures by name (drawing.to_png)."""
    register_fonts()
    by_anchor = {part.anchor: part for part in parts}
    setter, contents = Setter(pngs), TableOfContents(dotsMinLevel=0)
    contents.levelStyles = [STYLES["contents_0"], STYLES["contents_1"]]
    contents.tableStyle = PLAIN
    story: list[Flowable] = [
        Paragraph(text(title), STYLES["title"]),
        Paragraph(text(subtitle), STYLES["subtitle"]),
        *(setter.set(by_anchor["summary"].blocks) if "summary" in by_anchor else []),
        Spacer(0, 10),
        Paragraph("Contents", STYLES["heading"]),
        contents,
        PageBreak(),
        *kept_together(_chapters(by_anchor, setter)),
    ]
    target = io.BytesIO()
    _Paper(target, title).multiBuild(story)
    return target.getvalue()
