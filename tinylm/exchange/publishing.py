"""The folder of a publication: the exported model, its card, the report and the files that say how it was made."""

from collections.abc import Callable
from pathlib import Path

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.base.files import atomic_folder, atomic_write, copy_file
from tinylm.base.paths import FIGURES, REPORT_LAB, REPORT_PAGE, REPORT_PDF
from tinylm.exchange.card import write_card
from tinylm.exchange.hub import MARK, files_of
from tinylm.exchange.publication import Publication
from tinylm.report.drawing import to_png
from tinylm.report.pictures import draw_pictures
from tinylm.report.sources import FILES, Run

EXPORTS = Path("exports")
REPORT = (REPORT_PAGE, REPORT_PDF, REPORT_LAB)
CURVE = "loss_tokens"  # the training curve, in report.pictures


def _result_files(run: Run) -> list[str]:
    """The files with the run's metrics that do not depend on the machine."""
    named = [FILES[name][0] for name in run.files if name in FILES and not name.endswith("_time")]
    return [path for path in named if path.startswith(f"{FIGURES}/") or path == FILES["loss"][0]]


def build(
    folder: Path, run: Run, publication: Publication, export: Callable[[Path], object], root: Path
) -> list[str]:
    """Write the folder from the pipeline's files below `root`; returns its files, relative, sorted.

    `export` writes weights and tokenizer into an empty folder. A folder that is already there is replaced if it is an
    earlier publication, otherwise refused (InputError); on any failure it stays as it was.
    """
    if folder.exists() and (
        not folder.is_dir() or (any(folder.iterdir()) and not (folder / MARK).exists())
    ):
        raise InputError(f"{folder} is there and is no publication of tinylm; move it away")
    pictures = {}
    with atomic_folder(folder) as new:
        export(new)
        drawn = draw_pictures(run).get(CURVE)
        if drawn is not None:
            with atomic_write(new / "pictures/loss.png", "wb") as target:
                target.write(to_png(drawn.drawing))
            pictures[CURVE] = ("pictures/loss.png", drawn.alt)
        for name in (PARAMS_FILE, "dvc.lock", *_result_files(run)):
            copy_file(root / name, new / "pipeline" / name)
        for name in REPORT if publication.report else ():
            if name != REPORT_LAB or (root / name).is_file():  # a model can be too large for a page
                copy_file(root / name, new / name)
        with atomic_write(new / "README.md") as card:
            card.write(write_card(run, publication, pictures))
    return files_of(folder)
