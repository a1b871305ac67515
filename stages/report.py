"""Stage report: draw the pictures, write report/index.html, report.pdf and lab.html from the other stages' outputs."""

import sys
from pathlib import Path
from typing import Any

from tinylm.base import paths
from tinylm.base.config import read_section
from tinylm.base.files import keep_only, read_json
from tinylm.base.machine import pick_device
from tinylm.base.seeding import seed_everything
from tinylm.host.command import guard
from tinylm.host.params import stage_params
from tinylm.host.runtime import RuntimeSettings
from tinylm.report.current import LAB, is_current, mark_current
from tinylm.report.settings import ReportSettings
from tinylm.report.sources import as_number, read_run

TIMED = {
    "beam_bench": [paths.plot("beam_bench_time")],
    "kv_bench": [paths.plot("kv_bench_time")],
    "ckpt_bench": [paths.plot("ckpt_memory_time")],
}


def closing(figures: Any) -> str:
    """What a run ends with: its first figure, if stage evaluate measured it, and where to look."""
    perplexity = as_number(figures.get("perplexity")) if isinstance(figures, dict) else None
    elsewhere = (
        ".dvc" in Path.cwd().parts
    )  # an experiment in a folder of its own, which DVC removes
    look = (
        "dvc exp apply NAME and dvc repro report draw it"
        if elsewhere
        else f"open {paths.REPORT_PAGE}"
    )
    return f"{'' if perplexity is None else f'evaluation perplexity {perplexity:.2f}; '}{look}"


def main() -> None:
    params = stage_params()
    settings = read_section(params, "report", ReportSettings)
    if is_current(".", params):
        figures = paths.figures("evaluate")
        print(f"{paths.REPORT_PAGE} shows this run already")
        print(closing(read_json(figures) if Path(figures).exists() else None))
        return

    # seconds of imports, for those who need them
    from tinylm.lab.making import write_lab
    from tinylm.report.writing import write_report

    print("report: pictures, page and paper", flush=True)
    run = read_run(".", params)
    lab = write_lab(run, params, ".")
    if settings.prompts or settings.sentences:
        from tinylm.api.own_texts import with_own_texts

        runtime = read_section(params, "runtime", RuntimeSettings)
        device = pick_device(runtime.device)
        seed_everything(params["decode"]["seed"], runtime.threads)
        run = with_own_texts(run, settings, device)
    pictures = write_report(run, settings, ".", lab)
    keep_only(paths.PICTURES, set(pictures))
    for problem in run.problems.values():
        print(f"not shown: {problem}")
    for path in (paths.REPORT_PAGE, paths.REPORT_PDF, *([LAB] if lab else [])):
        print(f"{path}: {Path(path).stat().st_size / 1e6:.1f} MB")
    print(f"{len(pictures)} pictures in {paths.PICTURES}")
    mark_current(".", params, pictures, lab)
    print(closing(run.found.get("evaluate")))


if __name__ == "__main__":
    sys.exit(guard(main))
