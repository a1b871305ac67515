"""Pack code, report, plots, samples, settings and model card into one zip file for a course.

Writes exports/ENTRY.zip with the code that git tracks, without tests, benchmarks and studies.
Packing a run twice gives identical files. A run is refused if a stage is missing or out of date. With
--exercises it packs only your folder `exercises`.
"""

import argparse
from pathlib import Path

from tinylm.base import paths
from tinylm.base.config import InputError, read_section
from tinylm.cli.run_state import RunState, new_publication, read_run_state

EXAMPLES = """\
  tinylm handin 2026-12345
  tinylm handin 2026-12345 --weights
  tinylm handin 2026-12345 --exercises
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """ENTRY and the options."""
    add = parser.add_argument
    add("entry", metavar="ENTRY", help="name of the zip, such as your student number")
    add("--weights", action="store_true", help="add the weights, as tinylm export writes them")
    add("--exercises", action="store_true", help="pack the exercises instead of the run")


def _missing(state: RunState) -> list[str]:
    """Everything that is missing of the run, or is not of these parameters and this code."""
    missing = list(state.stale.values())
    for stage, path in state.changed_code.items():
        missing.append(f"stage {stage} ran with other code: {path} has changed since")
    return missing


def _code() -> list[str]:
    """The files that git tracks. Raises InputError where the code would not be whole."""
    from tinylm.experiments.provenance import tracked, untracked

    files = tracked()
    if files is None:
        raise InputError(
            "git lists no files here (git status says why); without a repository, run git init and git add -A"
        )
    # Which results there are depends on the settings, which may have changed since the commit.
    results = ("metrics/", "plots/")
    files = [name for name in files if Path(name).exists() or not name.startswith(results)]
    problems = []
    for name in files:
        if Path(name).is_dir():
            problems.append(
                f"{name}: a link to a folder or a git submodule, which the zip cannot hold; replace it by its files"
            )
        elif not Path(name).is_file():
            problems.append(f"{name}: tracked by git, but missing")
    for name in untracked("tinylm", "stages"):
        problems.append(f"{name}: not tracked by git, so it would be left out; run git add {name}")
    if problems:
        raise InputError(f"nothing was packed: {'; '.join(problems)}")
    return files


def _hand_in_exercises(entry: str) -> None:
    from tinylm.exchange.handin import check_entry, write_zip
    from tinylm.learn.course import WORK, load_course
    from tinylm.learn.desk import started
    from tinylm.learn.folder import own_files

    name = check_entry(entry)
    course = load_course()
    started(course)
    files = own_files(course)
    path = write_zip(
        f"{name}-exercises", {f"{WORK}/{file}": content for file, content in files.items()}
    )
    print(f"{path}: {len(files)} files")


def run(arguments: argparse.Namespace) -> None:
    """Write exports/ENTRY.zip. Raises InputError that lists what is missing."""
    if arguments.exercises:
        _hand_in_exercises(arguments.entry)
        return

    from tinylm.exchange.card import data_licence
    from tinylm.exchange.handin import NOT_NEEDED, HandIn, check_entry, write_hand_in
    from tinylm.exchange.stock import stock_problem
    from tinylm.experiments.provenance import authorship
    from tinylm.report.settings import ReportSettings
    from tinylm.run.trained_model import load_trained

    entry = check_entry(arguments.entry)
    state = read_run_state()
    settings = read_section(state.run.params, "report", ReportSettings)
    missing = _missing(state)
    if missing:
        raise InputError(
            f"nothing was packed: {'; '.join(missing)}; run dvc repro to make what is missing"
        )
    code = [name for name in _code() if not name.startswith(NOT_NEEDED)]
    trained = load_trained(paths.MODELS, state.run.params, paths.TOKENIZER)
    form = "tinylm" if stock_problem(trained.model.settings) else "transformers"
    publication = new_publication(
        trained,
        repo=settings.hub_path or entry,
        format=form,
        data=data_licence(state.run.params["data"], None),
        weights=arguments.weights,
    )
    hand_in = HandIn(entry, settings.author, code, authorship())
    path, files = write_hand_in(hand_in, state.run, publication, trained)
    print(f"{path}: {len(files)} files, {path.stat().st_size:,} bytes")
    without = "" if arguments.weights else "; the weights are left out (--weights adds them)"
    print(f"{len(code)} of them are code{without}")
