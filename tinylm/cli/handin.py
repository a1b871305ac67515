"""tinylm handin: what a course asks for as one zip, refused while anything of it is missing."""

import argparse
from pathlib import Path
from typing import Any

from tinylm.base import paths
from tinylm.base.config import InputError, load_params, read_section
from tinylm.cli.command import PARAMS, Command
from tinylm.cli.publish import origin

NOTES = """\
Writes exports/ENTRY.zip: the code that git tracks, README, report, plots, samples, settings and the model card; the
same run gives the same bytes. Refused while a stage did not run, its results are of other parameters or other code,
or the report does not show this run."""
EXAMPLES = """\
  tinylm handin 2026-12345
  tinylm handin 2026-12345 --author "Ada Lovelace" --weights
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """ENTRY and the options."""
    parser.add_argument(
        "entry", metavar="ENTRY", help="name or number of the entry: of the zip and of its folder"
    )
    parser.add_argument(
        "--author", metavar="NAME", help="for the README (default: report.author of params.yaml)"
    )
    parser.add_argument(
        "--weights",
        action="store_true",
        help="with the trained weights, as tinylm export writes them",
    )


def _run(params: dict[str, Any]) -> tuple[Any, list[str]]:
    """(the run, everything that is missing of it or not of these parameters and this code)."""
    from tinylm.compare.provenance import changed_code, is_current, without_stale
    from tinylm.report.sources import FILES, read_run

    run, missing = without_stale(read_run(".", params), ".")
    lacking: dict[str, str] = {}
    for (
        name,
        problem,
    ) in run.problems.items():  # times are of a machine: a result that was fetched has none
        if not name.endswith("_time"):
            lacking.setdefault(FILES[name][1], problem.partition(";")[0])
    missing += lacking.values()
    missing += changed_code(".", {stage for _, stage in FILES.values()})
    if not Path(paths.REPORT_PDF).exists():
        missing.append(f"{paths.REPORT_PDF} is missing")
    elif not missing and not is_current(".", params, "report"):
        missing.append(f"{paths.REPORT_PDF} does not show this run")
    return run, missing


def _code() -> list[str]:
    """The files that git tracks. Raises InputError outside git, and where the code would not be whole."""
    from tinylm.compare.provenance import tracked, untracked

    files = tracked(".")
    if files is None:
        raise InputError(
            "the code that is handed in is what git tracks, and this folder is in no git repository; git init and "
            "git add -A make it one"
        )
    odd = [
        f"{name}: tracked by git, but no plain file is there"
        for name in files
        if not _is_plain(Path(name))
    ]
    new = untracked(".", "tinylm", "stages")
    odd += [
        f"{name}: not tracked by git, so that the code would lack it; git add {name}"
        for name in new
    ]
    if odd:
        raise InputError(f"nothing handed in: {'; '.join(odd)}")
    return files


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _author(given: str | None, settings: Any) -> str | None:
    """Whose it is. Raises InputError for a name that is none, or another than the report's."""
    if given is not None and (not given.strip() or not given.isprintable()):
        raise InputError(f"--author {given!r}; allowed: a name in one line")
    if given is not None and settings.author not in (None, given):
        raise InputError(
            f"--author {given!r}: the report names {settings.author!r} (report.author of params.yaml)"
        )
    if given is not None and settings.author is None:
        print("note: the report names no author; report.author of params.yaml puts the name there")
    return given or settings.author


def run(arguments: argparse.Namespace) -> None:
    """Write exports/ENTRY.zip, or say in one line what is missing."""
    from tinylm.exchange.handin import HandIn, check_entry, write_hand_in
    from tinylm.report.settings import ReportSettings

    entry, params = check_entry(arguments.entry), load_params()
    settings = read_section(params, "report", ReportSettings)
    found, missing = _run(params)
    if missing:
        raise InputError(
            f"nothing handed in: {'; '.join(missing)}; dvc repro makes what is missing"
        )
    code = _code()
    hand_in = HandIn(entry, _author(arguments.author, settings), arguments.weights)

    from tinylm.exchange.export import Trained, export, stock_problem
    from tinylm.exchange.generation import untranslated
    from tinylm.exchange.loading import load_parts
    from tinylm.exchange.publication import Publication, data_licence

    trained = Trained(paths.MODELS, paths.TOKENIZER, *load_parts(paths.MODELS, paths.TOKENIZER))
    form = "tinylm" if stock_problem(trained.model.settings) else "transformers"
    publication = Publication(
        settings.hub_path or entry,
        form,
        None,
        data_licence(params["data"], None),
        origin(),
        report=False,
        left_out=(),
        lacks=tuple(untranslated(trained.decode)),
        weights=arguments.weights,
    )
    path, files = write_hand_in(
        hand_in,
        found,
        publication,
        code,
        lambda new: export(new, trained, form) if arguments.weights else None,
    )
    print(f"{path}: {len(files)} files, {path.stat().st_size:,} bytes")
    print(
        f"{len(code)} of them are the code"
        + ("" if arguments.weights else "; no weights, --weights adds them")
    )


COMMAND = Command(
    name="handin",
    purpose="pack what a course asks for: code, report, plots, samples, settings, model card",
    needs=PARAMS,
    add_arguments=add_options,
    run=run,
    notes=NOTES,
    examples=EXAMPLES,
)
