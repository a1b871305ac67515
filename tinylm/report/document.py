"""The report of a run: Markdown, the page, the PDF and the pictures."""

from collections.abc import Mapping
from pathlib import Path

from markupsafe import Markup

from tinylm.base import paths
from tinylm.base.files import write_bytes
from tinylm.report import render
from tinylm.report.drawing import Picture, optional, to_inline, to_svg
from tinylm.report.html_page import to_html
from tinylm.report.pdf import to_pdf
from tinylm.report.pictures import draw_pictures
from tinylm.report.settings import ReportSettings
from tinylm.report.values import report_values, template_values
from tinylm.run.finished_run import FinishedRun

TEMPLATE = Path(__file__).with_name("report.md.j2")
PICTURES = "../plots/pictures"  # seen from the folder of the report


def write_report(
    run: FinishedRun, settings: ReportSettings, folder: str | Path, lab: bool = False
) -> list[str]:
    """Write report/ (except lab.html) and plots/pictures/ below `folder`; returns their names.

    lab: whether lab.html is in report/, which the page then links to.
    """
    root = Path(folder)
    drawn = draw_pictures(run)
    svgs = {}
    for name, picture in drawn.items():
        with optional(f"picture {name}"):
            svgs[name] = to_svg(picture)
    drawn = {name: drawn[name] for name in svgs}
    markdown = write_document(run, settings, drawn, lab)
    inline = {name: to_inline(svgs[name], name, picture.alt) for name, picture in drawn.items()}
    write_bytes(root / paths.REPORT_TEXT, markdown.encode())
    write_bytes(root / paths.REPORT_PAGE, to_html(markdown, inline).encode())
    write_bytes(root / paths.REPORT_PDF, to_pdf(markdown, svgs, settings.author or "tinylm"))
    for name, svg in svgs.items():
        write_bytes(root / paths.PICTURES / f"{name}.svg", svg.encode())
    return list(drawn)


def write_document(
    run: FinishedRun, settings: ReportSettings, drawn: Mapping[str, Picture], lab: bool = False
) -> str:
    """The whole report as Markdown. drawn: the pictures by name; only their alt texts are read."""

    def picture(name: str, caption: str) -> Markup:
        if name not in drawn:
            return Markup("")
        return render.image(f"{PICTURES}/{name}.svg", drawn[name].alt, caption)

    values = template_values(run) | report_values(run, settings, lab)
    return render.render(TEMPLATE, picture=picture, **values)
