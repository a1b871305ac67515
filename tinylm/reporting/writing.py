"""Write the report: the page and the pictures as files."""

from pathlib import Path

from tinylm.files import atomic_write
from tinylm.reporting.drawing import to_png
from tinylm.reporting.page import build_page
from tinylm.reporting.pictures import draw_pictures, page_svgs, sentence_pictures
from tinylm.reporting.settings import ReportSettings
from tinylm.reporting.sources import Run

PAGE, PICTURES = Path("report/index.html"), Path("plots/pictures")


def write_report(run: Run, settings: ReportSettings, folder: str | Path) -> int:
    """Write report/index.html and plots/pictures/*.png below `folder`; returns the number of pictures."""
    pictures = draw_pictures(run)
    with atomic_write(Path(folder) / PAGE) as page:
        page.write(build_page(run, settings, page_svgs(pictures)))
    pictures |= sentence_pictures(run)
    for name, picture in pictures.items():
        with atomic_write(Path(folder) / PICTURES / f"{name}.png", "wb") as target:
            target.write(to_png(picture.figure))
    return len(pictures)
