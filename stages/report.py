"""Stage report: draw the pictures, write report/index.html and report/report.pdf from the other stages' outputs."""

import sys

from tinylm.base.config import read_section
from tinylm.host.command import guard
from tinylm.presets.sections import stage_params
from tinylm.reporting.reference_sections import with_library
from tinylm.reporting.settings import ReportSettings
from tinylm.reporting.sources import read_run
from tinylm.reporting.writing import PAGE, PAPER, write_report


def main() -> None:
    params = stage_params()
    settings = read_section(params, "report", ReportSettings)
    run = with_library(read_run(".", params), ".")
    pictures = write_report(run, settings, ".")
    for problem in run.problems.values():
        print(f"not shown: {problem}")
    for path in (PAGE, PAPER):
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
    print(f"{pictures} pictures in plots/pictures")
    perplexity = run.found.get("evaluate", {}).get("perplexity")
    print(f"{'' if perplexity is None else f'evaluation perplexity {perplexity:.2f}; '}open {PAGE}")


if __name__ == "__main__":
    sys.exit(guard(main))
