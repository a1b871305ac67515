"""`make pictures`: draws every picture of docs/pictures from the finished default run in this folder.

Each picture notes the models that it is of, as dvc.lock records them (tests/pictures/noted.py).
"""

import sys
from pathlib import Path

from tests.lab.browser import CHROMIUM
from tests.pictures import beliefs, charts, head_off, lab
from tests.pictures.noted import PICTURES, finished_run
from tinylm.base.command import run_command
from tinylm.base.config import InputError
from tinylm.base.files import write_bytes


def main() -> None:
    if CHROMIUM is None:
        raise InputError("expected Debian's Chromium, which takes the lab's picture, got none")
    run = finished_run(Path())
    drawn = charts.pictures(run) | {"head-off.svg": head_off.picture(run)}
    drawn |= {"beliefs.svg": beliefs.picture()} | lab.pictures(run)
    for name, content in drawn.items():
        write_bytes(PICTURES / name, content)
        print(PICTURES / name)
    beliefs.write_table()


if __name__ == "__main__":
    sys.exit(run_command(main))
