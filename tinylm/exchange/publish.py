"""A publication: a folder with the model, its card and its report, as one commit on the hub.

Large files are uploaded first and belong to no revision. Then one request makes the commit with all
files: until it is answered, the old revision stands. `HfApi.upload_folder` does not promise that,
since it may spread a folder over several commits.
"""

import sys
from pathlib import Path
from typing import Any

from tinylm.base.command import CommandFailed
from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.base.files import atomic_folder, copy_file, write_bytes
from tinylm.base.paths import REPORT_LAB, REPORT_PAGE, REPORT_PDF
from tinylm.exchange.card import Publication, write_card
from tinylm.exchange.export import export, written_names
from tinylm.report.settings import is_hub_path
from tinylm.run.finished_run import FILES, RESULTS, FinishedRun
from tinylm.run.trained_model import TrainedModel

EXPORTS = Path("exports")
MARK = "pipeline/params.yaml"  # a folder or repository that has it was written by tinylm
FOLDERS = ("tinylm/", "report/", "pipeline/")  # of a publication
HUB_DEFAULT_FILES = {".gitattributes", ".gitignore", "LICENSE", "README.md"}
ANSWER_S = 120.0  # a hub that is silent for so long does not answer


def check_repo(repo: str) -> None:
    """Raise InputError for a name that the hub does not accept for a repository."""
    if not is_hub_path(repo):
        raise InputError(
            "REPO: expected OWNER/NAME of letters, digits, _ . and -, such as me/small-stories, "
            f"got {repo!r}"
        )


def files_of(folder: Path) -> list[str]:
    """Every file of a folder, relative to it, sorted."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in files)


def build(
    folder: Path, run: FinishedRun, publication: Publication, trained: TrainedModel
) -> list[str]:
    """Write a publication of the run in the working folder; returns its files, relative, sorted.

    trained: what is exported if the publication has weights. Raises InputError for a folder that
    is there and is no earlier publication. On any failure the folder stays as it was.
    """
    present = list(folder.glob("*")) if folder.exists() else []
    if folder.is_file() or (present and not (folder / MARK).exists()):
        raise InputError(f"{folder}: expected an earlier publication, got other files; move them")
    names = [*RESULTS, *(f"times.{stage}" for stage in RESULTS), "tables.loss"]
    result_files = [FILES[name].path for name in names if run.has(name)]
    with atomic_folder(folder) as new:
        if publication.weights:
            export(new, trained, publication.format)
        for name in (PARAMS_FILE, "dvc.lock", *result_files):
            copy_file(name, new / "pipeline" / name)
        if publication.report:
            for name in (REPORT_PAGE, REPORT_PDF, REPORT_LAB):
                if Path(name).is_file():  # a model can be too large for the lab's page
                    copy_file(name, new / name)
        write_bytes(new / "README.md", write_card(run, publication).encode())
    return files_of(folder)


def find_token() -> str:
    """The user's token, from where huggingface_hub keeps it. Raises InputError without one."""
    from huggingface_hub import get_token

    token = get_token()
    if not token:
        raise InputError("no token for the hub: run hf auth login, or set HF_TOKEN")
    return token


def upload(folder: Path, repo: str, private: bool, message: str, token: str) -> tuple[str, str]:
    """Commit the files of `folder` as the repository's head, in one commit; its other files stay.

    Returns the repository's page and its newest commit, which is an old one if nothing has changed.

    Raises InputError for an unsuitable token, name or repository, CommandFailed if the hub or the
    connection failed. No message contains the token.
    """
    import huggingface_hub as hub

    hub.logging.set_verbosity_error()  # its warnings print addresses that let anyone upload
    if not sys.stderr.isatty():
        hub.utils.disable_progress_bars()
    hub.get_session().timeout = ANSWER_S  # by default it waits without end
    api = hub.HfApi(token=token)
    files = files_of(folder)
    additions = [hub.CommitOperationAdd(name, folder / name) for name in files]
    try:
        url = str(api.create_repo(repo, private=private or None, exist_ok=True))
        head = api.model_info(repo)
        present = {file.rfilename for file in head.siblings or []}
        if private and not head.private:
            raise InputError(f"{url} is public; make it private in its settings")
        if MARK not in present and not present <= HUB_DEFAULT_FILES:
            raise InputError(f"{url} has files that tinylm did not publish; choose another name")
        deletions = [hub.CommitOperationDelete(name) for name in _outdated(present, files)]
        operations: list[Any] = [*additions, *deletions]
        commit = api.create_commit(repo, operations, commit_message=message, parent_commit=head.sha)
    except InputError:
        raise
    except Exception as error:  # any error of the library becomes one line
        raise _failure(error, repo, token) from None
    return url, commit.oid


def _outdated(present: set[str], files: list[str]) -> list[str]:
    """The files of earlier publications that are no longer among `files`; sorted."""
    outdated = []
    for name in sorted(present.difference(files)):
        if name in written_names() or name.startswith(FOLDERS):
            outdated.append(name)
    return outdated


def _failure(error: Exception, repo: str, token: str) -> Exception:
    """One line on what went wrong between this machine and the hub."""
    from huggingface_hub import constants

    status = getattr(getattr(error, "response", None), "status_code", None)
    message = str(getattr(error, "server_message", None) or f"{type(error).__name__}: {error}")
    message = " ".join(message.replace(token, "…").split())[:200]
    line = f"{constants.ENDPOINT}: {message}"
    if status in (401, 403):
        return InputError(
            f"{line}; run hf auth login, or set HF_TOKEN to a token that may write to {repo}"
        )
    return CommandFailed(f"{line}; {repo} is unchanged, run the command again")
