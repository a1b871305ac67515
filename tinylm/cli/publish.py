"""Publish the model, its card and its report on the Hugging Face hub.

Writes exports/REPO: the weights as `tinylm export` writes them, a model card, the report, parameters,
dvc.lock and metrics. All of it becomes one commit of the repository, so an upload that fails changes
nothing there. The token is that of `hf auth login` or HF_TOKEN.
"""

import argparse

from tinylm.base import paths
from tinylm.base.config import InputError
from tinylm.cli.run_state import new_publication, read_run_state

EXAMPLES = """\
  tinylm publish me/small-stories --dry-run
  tinylm publish me/small-stories --private --license mit
  tinylm publish me/my-stories --data-license cc-by-4.0
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """REPO and the options."""
    add = parser.add_argument
    add("repo", metavar="REPO", help="OWNER/NAME; created if it does not exist")
    add("--dry-run", action="store_true", help="write the folder, upload nothing")
    add("--private", action="store_true", help="create a repository that only you can see")
    add("--license", metavar="NAME", help="licence of the weights, for the card (default: none)")
    add("--data-license", metavar="NAME", help="licence of your own data")
    formats = ("transformers", "tinylm")
    add("--format", choices=formats, default=formats[0], help="file format (default %(default)s)")


def run(arguments: argparse.Namespace) -> None:
    """Write exports/REPO and, without --dry-run, publish it."""
    from tinylm.exchange.card import data_licence
    from tinylm.exchange.publish import EXPORTS, build, check_repo, find_token, upload
    from tinylm.run.trained_model import load_trained

    check_repo(arguments.repo)
    state = read_run_state()
    reasons = [
        state.stale[stage] for stage in ("download", "vocab", "train") if stage in state.stale
    ]
    if reasons or not state.run.has("train"):
        reason = reasons[0] if reasons else "run dvc repro train"
        raise InputError(f"no model was trained with these parameters: {reason}")
    data = data_licence(state.run.params["data"], arguments.data_license)
    unknown = f"the licence of the data ({data.data}) is unknown; state it with --data-license NAME"
    if data.name is None and not arguments.dry_run:
        raise InputError(unknown)
    token = "" if arguments.dry_run else find_token()
    trained = load_trained(paths.MODELS, state.run.params, paths.TOKENIZER)
    publication = new_publication(
        trained,
        repo=arguments.repo,
        format=arguments.format,
        licence=arguments.license,
        data=data,
        report="report" not in state.stale,
        left_out=tuple(state.stale.values()),
    )
    folder = EXPORTS / arguments.repo
    files = build(folder, state.run, publication, trained)
    for line in publication.left_out:
        print(f"left out: {line}")
    for name in files:
        print(f"{(folder / name).stat().st_size:>12,} bytes  {folder / name}")
    if arguments.dry_run:
        print(f"dry run: nothing was published; it would be one commit to {arguments.repo}")
        if data.name is None:
            print(unknown)
        return
    message = f"tinylm {publication.commit or ''}".strip()
    url, commit = upload(folder, arguments.repo, arguments.private, message, token)
    print(f"{url}: commit {commit}")
