"""Stage report: draw the pictures and write report/index.html from what the other stages left."""

import sys

from tinylm.command import guard
from tinylm.config import load_params, read_section
from tinylm.reporting.settings import ReportSettings
from tinylm.reporting.sources import read_run
from tinylm.reporting.writing import PAGE, write_report


def main() -> None:
    params = load_params()
    settings = read_section(params, "report", ReportSettings)
    run = read_run(".", params)
    pictures = write_report(run, settings, ".")
    for problem in run.problems.values():
        print(f"not shown: {problem}")
    print(f"{PAGE}: {PAGE.stat().st_size / 1e6:.1f} MB; {pictures} pictures in plots/pictures")


if __name__ == "__main__":
    sys.exit(guard(main))
