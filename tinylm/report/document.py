"""The report of a run: its sections in their order, and the files made from them."""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from tinylm.base import paths
from tinylm.base.files import write_bytes
from tinylm.report import pictures, render, values
from tinylm.report.drawing import Picture, to_inline, to_svg
from tinylm.report.effects import effects, says
from tinylm.report.html_page import to_html
from tinylm.report.pdf import to_pdf
from tinylm.report.settings import ReportSettings
from tinylm.report.sources import ReportData

FOLDER = Path(__file__).parent
PICTURES = "../plots/pictures"  # seen from the folder of the report
DAMAGED = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
SECTIONS: dict[str, Callable[[ReportData], dict[str, Any]]] = {
    "summary": values.summary,
    "truth": values.truth,
    "method": values.method,
    "training": values.training,
    "generation": values.generation,
    "attention": values.attention,
    "beams": values.beams,
    "cache": values.cache,
    "accumulation": values.accumulation,
    "checkpointing": values.checkpointing,
    "appendix": values.appendix,
}


def write_report(
    run: ReportData, settings: ReportSettings, folder: str | Path, lab: bool = False
) -> list[str]:
    """Write report/ (except lab.html) and plots/pictures/ below `folder`; returns their names.

    lab: whether lab.html is in report/, which the page then links to.
    """
    root = Path(folder)
    drawn = pictures.draw_pictures(run)
    markdown = write_document(run, settings, drawn, lab)
    svgs = {name: to_svg(picture) for name, picture in drawn.items()}
    inline = {name: to_inline(svgs[name], name, picture.alt) for name, picture in drawn.items()}
    write_bytes(root / paths.REPORT_TEXT, markdown.encode())
    write_bytes(root / paths.REPORT_PAGE, to_html(markdown, inline).encode())
    write_bytes(root / paths.REPORT_PDF, to_pdf(markdown, svgs))
    for name, svg in svgs.items():
        write_bytes(root / paths.PICTURES / f"{name}.svg", svg.encode())
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
    shared = values.template_values(run)
    shared["picture"] = functools.partial(_picture, drawn)
    shared["says"] = says
    try:
        shared["effects"] = effects(run)
    except DAMAGED:
        shared["effects"] = {}
    problems = list(run.problems.values())
    head = render.render(FOLDER / "head.md.j2", settings=settings, lab=lab, problems=problems)
    return "\n".join([head, *(_section(name, run, shared) for name in SECTIONS)])


def _section(name: str, run: ReportData, shared: Mapping[str, Any]) -> str:
    """A section as Markdown; one line if a results file that it reads is damaged."""
    try:
        return render.render(FOLDER / f"{name}.md.j2", **shared, **SECTIONS[name](run))
    except DAMAGED as error:
        what = render.escape(f"{type(error).__name__}: {error}")
        return f"**Not shown:** section {name}: a file in data/ is damaged ({what}).\n"


def _picture(drawn: Mapping[str, Picture], name: str, caption: str) -> Markup:
    if name not in drawn:
        return Markup("")
    return render.image(f"{PICTURES}/{name}.svg", drawn[name].alt, caption)
