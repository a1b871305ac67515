"""The report of a run: the values that the templates name, and the files made from them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tinylm.base import paths
from tinylm.base.files import write_bytes
from tinylm.host.runtime import conditions
from tinylm.report import pictures, render
from tinylm.report.comments import comments
from tinylm.report.drawing import Picture, to_png, to_svg
from tinylm.report.findings import findings_by_section
from tinylm.report.heads import heads
from tinylm.report.html_page import to_html
from tinylm.report.pdf import to_pdf
from tinylm.report.settings import ReportSettings
from tinylm.report.sources import STAGES, ReportData, as_tree, records
from tinylm.report.wording import many

TEMPLATE = Path(__file__).with_name("report.md.j2")
PICTURES = "../plots/pictures"  # seen from the folder of the report


def write_report(
    run: ReportData, settings: ReportSettings, folder: str | Path, lab: bool = False
) -> list[str]:
    """Write report/ (except lab.html) and plots/pictures/ below `folder`; returns their names.

    lab: whether lab.html is in report/, which the page then links to.
    """
    root = Path(folder)
    drawn = pictures.draw_pictures(run)
    markdown = write_document(run, settings, drawn, lab)
    svgs = {name: to_svg(picture.drawing, name, picture.alt) for name, picture in drawn.items()}
    for picture in drawn.values():
        picture.drawing.set_layout_engine("none")  # laid out already; a second time takes seconds
    pngs = {name: to_png(picture.drawing) for name, picture in drawn.items()}
    write_bytes(root / paths.REPORT_TEXT, markdown.encode())
    write_bytes(root / paths.REPORT_PAGE, to_html(markdown, svgs).encode())
    write_bytes(root / paths.REPORT_PDF, to_pdf(markdown, pngs))
    for name, png in pngs.items():
        write_bytes(root / paths.PICTURES / f"{name}.png", png)
    return list(drawn)


def write_document(
    run: ReportData, settings: ReportSettings, drawn: Mapping[str, Picture], lab: bool = False
) -> str:
    """The whole report as Markdown.

    Args:
        run: what the stages left behind.
        settings: section `report`.
        drawn: the pictures by name; only their alt texts are read.
        lab: whether the report links to lab.html.
    """
    return render.render(
        TEMPLATE,
        **template_values(run),
        settings=settings,
        lab=lab,
        drawn=drawn,
        findings=findings_by_section(run),
        commented=list(zip(run.rows("samples"), comments(run)))[: settings.samples],
        picture=lambda name, caption: _picture(drawn, name, caption),
    )


def template_values(run: ReportData) -> dict[str, Any]:
    """The values that the templates name: params, results and times of each stage, tables."""
    times = {f"{stage}_time": run.tree(f"{stage}_time") for stage in STAGES}
    memorised = run.tree("evaluate").memorised
    copies = [run.tree("download").near_copies, run.tree("vocab").split.near_copies]
    return {
        "run": run,
        "params": as_tree(run.params),
        **{stage: run.tree(stage) for stage in STAGES},
        **times,
        "near_copies": copies[0].splits | copies[1].splits,
        "warnings": [
            *copies[0].warnings,
            *copies[1].warnings,
            *memorised.warnings,
            *run.tree("evaluate").warnings,
        ],
        "heads": records(heads(run)),
        "stages": STAGES,
        "elsewhere": measured_elsewhere(run),
    }


def measured_elsewhere(run: ReportData) -> list[str]:
    """Each machine other than this one on which a time of the run was measured, with the date."""
    here = conditions(None, threads=1)
    machines = []
    for stage in STAGES:
        used = run.tree(f"{stage}_time").conditions
        if used and (used.cpu, used.cores) != (here["cpu"], here["cores"]):
            machines.append(f"{used.cpu} with {many(used.cores, 'core')} ({used.date})")
    return sorted(set(machines))


def _picture(drawn: Mapping[str, Picture], name: str, caption: str) -> Markup:
    if name not in drawn:
        return Markup("")
    return render.image(f"{PICTURES}/{name}.png", drawn[name].alt, caption)
