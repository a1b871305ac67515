"""Write the report: report.md, the page and the PDF made from it, and the pictures."""

from pathlib import Path

from tinylm.base import paths
from tinylm.base.files import atomic_write, discard, write_json
from tinylm.report.document import write_document
from tinylm.report.drawing import to_png, to_svg
from tinylm.report.pictures import draw_pictures
from tinylm.report.render import to_html, to_pdf
from tinylm.report.settings import ReportSettings
from tinylm.report.sources import Run


def write_report(
    run: Run, settings: ReportSettings, folder: str | Path, lab: bool = False
) -> list[str]:
    """Write report/ without lab.html and plots/pictures/ below `folder`; returns the pictures' names.

    lab: whether lab.html stands in report/, which the page then links to.
    """
    root = Path(folder)
    pictures = draw_pictures(run)
    markdown = write_document(run, settings, pictures, lab)
    svgs = {name: to_svg(picture.drawing, name, picture.alt) for name, picture in pictures.items()}
    pngs = {name: to_png(picture.drawing) for name, picture in pictures.items()}
    files = {
        paths.REPORT_TEXT: markdown.encode(),
        paths.REPORT_PAGE: to_html(markdown, svgs).encode(),
        paths.REPORT_PDF: to_pdf(markdown, pngs),
    }
    files |= {f"{paths.PICTURES}/{name}.png": png for name, png in pngs.items()}
    for path, content in files.items():
        with atomic_write(root / path, "wb") as target:
            target.write(content)
    if rows := run.rows("own_texts"):
        write_json(root / paths.OWN_TEXTS, rows)
    else:
        discard(root / paths.OWN_TEXTS)
    return list(pictures)
