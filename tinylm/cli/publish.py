"""tinylm publish: the trained model, its card and its report as one commit of a repository on the hub."""

import argparse
from pathlib import Path
from typing import Any

from tinylm.base import paths
from tinylm.base.config import InputError, load_params
from tinylm.cli.command import PARAMS, Command

NOTES = """\
Writes exports/REPO: the weights as `tinylm export` gives them, a model card, the training curve, the report and what
says how it was made. Then all of it becomes one commit of the repository; until then, and if anything fails, its old
revision stands. The token is the one of `hf auth login` or HF_TOKEN."""
EXAMPLES = """\
  tinylm publish me/small-stories --dry-run
  tinylm publish me/small-stories --private --license mit
  tinylm publish me/my-stories --data-license cc-by-4.0
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """REPO and the options."""
    parser.add_argument("repo", metavar="REPO", help="OWNER/NAME; it is made if it is not there")
    parser.add_argument(
        "--dry-run", action="store_true", help="write the folder and say what would go where"
    )
    parser.add_argument(
        "--private", action="store_true", help="a new repository that only you can see"
    )
    parser.add_argument(
        "--license", metavar="NAME", help="of the weights, for the card (default: none is stated)"
    )
    parser.add_argument(
        "--data-license", metavar="NAME", help="of the data, where tinylm cannot know it"
    )
    parser.add_argument(
        "--format",
        choices=("transformers", "tinylm"),
        default="transformers",
        help="of the weights, as in tinylm export (default %(default)s)",
    )


def _run() -> tuple[Any, list[str], bool]:
    """(the run without what other parameters made, what was left out and why, whether the report is of this run)."""
    from tinylm.compare.provenance import is_current, without_stale
    from tinylm.report.sources import read_run

    params = load_params()
    run, left_out = without_stale(read_run(".", params), ".")
    if "train" not in run.found:
        raise InputError(
            "; ".join(["no trained model of these parameters: run dvc repro train", *left_out])
        )
    left_out += [line for name, line in run.problems.items() if name == "evaluate"]
    report = is_current(".", params, "report")
    return (
        run,
        left_out + ([] if report else ["report: it does not show this run; run dvc repro report"]),
        report,
    )


def _listing(folder: Path, files: list[str]) -> str:
    sizes = {name: (folder / name).stat().st_size for name in files}
    width = max(map(len, files))
    lines = [f"  {name:{width}}  {size:>12,}" for name, size in sizes.items()]
    return "\n".join(
        [*lines, f"  {f'{len(files)} files, bytes':{width}}  {sum(sizes.values()):>12,}"]
    )


def origin() -> Any:
    """Where the model of this folder comes from. Raises InputError if its bytes are not those of stage train."""
    from tinylm.compare.provenance import output_md5, revision, uncommitted
    from tinylm.exchange.publication import Origin

    made_with = uncommitted(".", "dvc.lock", "dvc.yaml", "params.yaml")
    return Origin(revision(), output_md5(".", "train", paths.MODELS), made_with)


def _publication(arguments: argparse.Namespace, report: bool, **known: Any) -> Any:
    from tinylm.exchange.publication import Publication

    return Publication(
        arguments.repo, arguments.format, arguments.license, origin=origin(), report=report, **known
    )


def _data(arguments: argparse.Namespace) -> Any:
    """The data's licence. Raises InputError if a publication could not state it."""
    from tinylm.exchange.publication import check_name, data_licence

    for option, given in (
        ("--license", arguments.license),
        ("--data-license", arguments.data_license),
    ):
        if given is not None:
            check_name(given, option)
    data = data_licence(load_params()["data"], arguments.data_license)
    if data.name is None and not arguments.dry_run:
        raise InputError(
            f"the licence of the data ({data.data}) is not known: say it with --data-license NAME"
        )
    return data


def _say_what_would_be(arguments: argparse.Namespace, known_licence: bool) -> None:
    from tinylm.exchange.hub import endpoint

    kind = "private" if arguments.private else "public if it is new"
    print(f"not published: it would be one commit of {endpoint()}/{arguments.repo}, {kind}")
    if not known_licence:
        print("the licence of the data is not known: to publish, say it with --data-license NAME")


def run(arguments: argparse.Namespace) -> None:
    """Write exports/REPO and, without --dry-run, publish it."""
    from tinylm.exchange.hub import check_repo

    check_repo(arguments.repo)
    run, left_out, report = _run()
    data = _data(arguments)

    from tinylm.exchange.hub import find_token, upload

    token = "" if arguments.dry_run else find_token()

    from tinylm.exchange.export import Trained, export
    from tinylm.exchange.generation import untranslated
    from tinylm.exchange.loading import load_parts
    from tinylm.exchange.publishing import EXPORTS, build

    trained = Trained(paths.MODELS, paths.TOKENIZER, *load_parts(paths.MODELS, paths.TOKENIZER))
    lacks = tuple(untranslated(trained.decode))
    publication = _publication(arguments, report, data=data, left_out=tuple(left_out), lacks=lacks)
    folder = EXPORTS / arguments.repo
    files = build(
        folder, run, publication, lambda new: export(new, trained, arguments.format), Path()
    )
    for line in left_out:
        print(f"left out: {line}")
    print(f"{folder}:\n{_listing(folder, files)}")
    if arguments.dry_run:
        _say_what_would_be(arguments, data.name is not None)
        return
    message = f"tinylm {publication.origin.commit or ''}".strip()
    done = upload(folder, arguments.repo, arguments.private, message, token)
    print(
        f"{done.url}: {'commit' if done.changed else 'holds all of it already, commit'} {done.commit}"
    )


COMMAND = Command(
    name="publish",
    purpose="put the model, its card and its report on the Hugging Face hub",
    needs=PARAMS,
    add_arguments=add_options,
    run=run,
    notes=NOTES,
    examples=EXAMPLES,
)
