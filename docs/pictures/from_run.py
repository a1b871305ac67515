"""Copies the pictures of a finished run that README and truth.md show, in the colours of a light and a dark page.

python docs/pictures/from_run.py     in a folder with a finished default run
"""

import sys
from pathlib import Path

from tinylm.base import paths
from tinylm.base.command import run_command
from tinylm.base.files import write_bytes
from tinylm.report.drawing import STYLE_SHEET, to_inline

FOLDER = Path(__file__).parent
PICTURES = {"truth_story": "truth", "truth_decoding": "decoding"}  # of a run: their names here
VARIABLES = STYLE_SHEET.read_text(encoding="utf-8").partition("* {")[0]  # of both styles


def on_its_own(svg: str, name: str) -> str:
    """The picture as a file that brings the page's colours along."""
    inline = to_inline(svg, name, alt="")
    # The default recipe's settings, for readers who do not know params.yaml.
    inline = inline.replace(">section decode<", ">min-p 0.1 (default)<")
    tag, _, content = inline.partition(">")
    return f"{tag}><style>{VARIABLES}</style>{content}\n"


def main() -> None:
    for drawn, name in PICTURES.items():
        svg = Path(paths.PICTURES, f"{drawn}.svg").read_text(encoding="utf-8")
        write_bytes(FOLDER / f"{name}.svg", on_its_own(svg, name).encode())


if __name__ == "__main__":
    sys.exit(run_command(main))
