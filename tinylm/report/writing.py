"""Write the report: the page, the paper and the pictures as files."""

from pathlib import Path

from tinylm.base import paths
from tinylm.base.files import atomic_write, discard, write_json
from tinylm.report.current import OWN_TEXTS
from tinylm.report.drawing import to_png
from tinylm.report.page import build_page
from tinylm.report.paper import build_paper
from tinylm.report.pictures import draw_pictures, page_svgs, sentence_pictures
from tinylm.report.run_sections import byline, subtitle
from tinylm.report.sections import write_parts
from tinylm.report.settings import ReportSettings
from tinylm.report.short_paper import build_short_paper
from tinylm.report.sources import Run

PAGE, PAPER, PICTURES = Path(paths.REPORT_PAGE), Path(paths.REPORT_PDF), Path(paths.PICTURES)


def write_report(
    run: Run, settings: ReportSettings, folder: str | Path, lab: bool = False
) -> list[str]:
    """Write report/index.html, report/report.pdf and plots/pictures/*.png below `folder`; returns the names.

    lab: whether lab.html stands beside the page, which then links to it.
    """
    pictures, parts = draw_pictures(run), write_parts(run, settings)
    with atomic_write(Path(folder) / PAGE) as page:
        page.write(
            build_page(parts, settings.title, page_svgs(pictures), byline=byline(settings), lab=lab)
        )
    pngs = {
        name: to_png(picture.figure)
        for name, picture in (pictures | sentence_pictures(run)).items()
    }
    for name, png in pngs.items():
        with atomic_write(Path(folder) / PICTURES / f"{name}.png", "wb") as target:
            target.write(png)
    with atomic_write(Path(folder) / PAPER, "wb") as paper:
        build = build_short_paper if settings.compare == "none" else build_paper
        paper.write(build(parts, settings.title, subtitle(run), pngs, byline=byline(settings)))
    own = Path(folder) / OWN_TEXTS
    if rows := run.rows("own_texts"):
        write_json(own, rows)
    else:
        discard(own)
    return list(pngs)
