"""A folder as one commit of a repository on the Hugging Face hub, or of the hub in HF_ENDPOINT.

Large files are uploaded first and belong to no revision. Then one request makes the commit with all
files: until it is answered, the old revision stands. `HfApi.upload_folder` does not promise that,
since it may spread a folder over several commits.
"""

import dataclasses
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from tinylm.base.config import InputError
from tinylm.exchange.export import NAMES
from tinylm.host.command import CommandFailed
from tinylm.report.settings import is_hub_path

MARK = "pipeline/params.yaml"  # a folder or repository that has it was written by tinylm
ANSWER_S = 120.0  # a hub that is silent for so long does not answer
FOLDERS = ("tinylm/", "report/", "pipeline/", "pictures/")
# A repository with nothing else is new.
OF_ANY_REPOSITORY = {".gitattributes", ".gitignore", "LICENSE", "README.md"}


def check_repo(repo: str) -> None:
    """Raise InputError for a name that the hub does not accept for a repository."""
    if not is_hub_path(repo):
        raise InputError(
            f"REPO {repo!r}; allowed: OWNER/NAME of letters, digits, _ . and - such as "
            "me/small-stories"
        )


def files_of(folder: Path) -> list[str]:
    """Every file of a folder, relative to it, sorted."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in files)


@dataclasses.dataclass(frozen=True)
class Published:
    """The repository's page, the commit at its head, and whether this publication made it."""

    url: str
    commit: str
    changed: bool


def find_token() -> str:
    """The user's token, from where huggingface_hub keeps it. Raises InputError without one."""
    from huggingface_hub import get_token

    token = get_token()
    if not token:
        raise InputError("no token for the hub: run hf auth login, or set HF_TOKEN")
    return token


def endpoint() -> str:
    """The hub's address, without a user name or password in it."""
    from huggingface_hub import constants

    parts = urlsplit(constants.ENDPOINT)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])).rstrip("/")


def upload(folder: Path, repo: str, private: bool, message: str, token: str) -> Published:
    """Commit the files of `folder` as the repository's head, in one commit; its other files stay.

    Raises InputError if the token, the name or the repository is not suitable, CommandFailed if the
    hub or the way to it failed. No message contains the token.
    """
    from huggingface_hub import HfApi, get_session, logging
    from huggingface_hub.utils import disable_progress_bars

    logging.set_verbosity_error()  # its warnings print addresses that let anyone upload
    if not sys.stderr.isatty():
        disable_progress_bars()
    get_session().timeout = ANSWER_S  # by default it waits without end
    try:
        return _upload(HfApi(token=token), folder, repo, private, message)
    except InputError:
        raise
    except Exception as error:  # whatever the library and those below it raise becomes one line
        raise _failure(error, repo, token) from None


def _upload(api: Any, folder: Path, repo: str, private: bool, message: str) -> Published:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    url = str(api.create_repo(repo, private=private or None, exist_ok=True))
    head = api.model_info(repo)
    present = [file.rfilename for file in head.siblings or []]
    if private and not head.private:
        raise InputError(f"{url} is public: make it private in its settings")
    foreign = sorted(set(present) - OF_ANY_REPOSITORY)
    if foreign and MARK not in present:
        names = ", ".join(foreign[:3])
        raise InputError(
            f"{url} holds files that tinylm did not publish ({names}); choose another name"
        )
    files = files_of(folder)
    operations: list[Any] = [CommitOperationAdd(name, folder / name) for name in files]
    for name in present:
        is_published = name in NAMES or name.startswith(FOLDERS)
        if is_published and name not in files:
            operations.append(CommitOperationDelete(name))
    commit = api.create_commit(repo, operations, commit_message=message, parent_commit=head.sha)
    return Published(url, commit.oid, commit.oid != head.sha)


def _failure(error: BaseException, repo: str, token: str) -> Exception:
    """One line on what went wrong between this machine and the hub."""
    cause: BaseException | None = error
    while cause is not None and getattr(cause, "response", None) is None:
        cause = cause.__cause__
    status = getattr(getattr(cause, "response", None), "status_code", None)
    what = str(getattr(cause, "server_message", None) or f"{type(error).__name__}: {error}")
    what = " ".join(what.replace(token, "…").split())[:200]
    host = endpoint()
    if status == 401:
        return InputError(f"{host} refuses the token (401): run hf auth login, or set HF_TOKEN")
    if status == 403:
        return InputError(f"{host} does not let this token write {repo} (403): {what}")
    if status in (409, 412):
        return CommandFailed(f"{repo} was changed by somebody else ({status}); run again")
    answer = f"{host} answered {status}" if status is not None else host
    return CommandFailed(f"{answer}: {what}; {repo} is as it was, run again")
