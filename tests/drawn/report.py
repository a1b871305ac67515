"""Properties of a run that reached its report."""

import re
from pathlib import Path

from tests.drawn.drawing import DrawnRun
from tests.drawn.properties import holds

LEAST_BYTES = 1000


@holds("finished")
def what_the_check_accepts_reaches_the_report(drawn: DrawnRun, folder: Path) -> None:
    """Page, PDF and lab are there; a lab is left out only where the page says so.

    No template puts the dash of a missing value against a word, as an `if` without an `else` does.
    """
    for name in ("report/index.html", "report/report.pdf"):
        assert (folder / name).stat().st_size > LEAST_BYTES, name
    page = (folder / "report/index.html").read_text("utf-8")
    has_lab = (folder / "report/lab.html").exists()
    assert has_lab == ('href="lab.html' in page)
    from_templates = (folder / "report/report.md").read_text("utf-8").partition("### Samples")[0]
    glued = re.findall(r".*[a-z]–[\W].*", from_templates)
    assert not glued, glued
