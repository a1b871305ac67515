"""Stage report: report.md, the page, the PDF, the story lab and the pictures, from the other stages' outputs."""

import sys
from pathlib import Path

from tinylm.base import paths
from tinylm.base.command import run_command
from tinylm.lab.making import write_lab
from tinylm.params.stage import Stage
from tinylm.report.document import write_report
from tinylm.run.finished_run import read_run


def main() -> None:
    stage = Stage("report")
    settings = stage.params.report
    run = read_run(".", stage.values, whole=True)
    run.refuse_mixed()
    has_lab = write_lab(run, stage.values, ".")
    if settings.prompts or settings.sentences:
        from tinylm.api.own_texts import with_own_texts

        stage.begin(stage.params.decode.seed)
        run = with_own_texts(run, settings)
    pictures = write_report(run, settings, ".", has_lab)
    for path in (paths.REPORT_PAGE, paths.REPORT_PDF, *([paths.REPORT_LAB] if has_lab else [])):
        print(f"{path}: {Path(path).stat().st_size / 1e6:.1f} MB")
    print(f"{len(pictures)} pictures in {paths.PICTURES}")
    perplexity = run.evaluate.perplexity if run.evaluate else None
    if perplexity is not None:
        print(f"evaluation perplexity {perplexity:.2f}; open {paths.REPORT_PAGE}")
    stage.refuse_edits()


if __name__ == "__main__":
    sys.exit(run_command(main))
