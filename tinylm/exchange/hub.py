"""A folder as one commit of a repository on the Hugging Face hub, or of the hub that HF_ENDPOINT names.

Large files are uploaded first and belong to no revision; then one request makes the commit with all files. Whatever
happens before it has been answered leaves the old revision in place; what was uploaded is not sent again.
"""

import dataclasses
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from tinylm.base.config import InputError
from tinylm.host.command import CommandFailed
from tinylm.report.settings import is_hub_path

MARK = "pipeline/params.yaml"  # a folder or repository that has it was written by us
ANSWER_S = 120.0  # a hub that is silent for so long does not answer
_PLACES = ("tinylm/", "report/", "pipeline/", "pictures/")
_NAMES = {
    "config.json",
    "generation_config.json",
    "model.gguf",
    "model.safetensors",
    "modeling_tinylm.py",
    "tokenizer.json",
    "tokenizer_config.json",
}
_OF_ANY = {
    ".gitattributes",
    ".gitignore",
    "LICENSE",
    "README.md",
}  # a repository with nothing else is new


def check_repo(repo: str) -> None:
    """Raise InputError for a name that the hub does not accept for a repository."""
    if not is_hub_path(repo):
        raise InputError(
            f"REPO {repo!r}; allowed: OWNER/NAME of letters, digits, _ . and - such as me/small-stories"
        )


def files_of(folder: Path) -> list[str]:
    """Every file of a folder, relative to it, sorted."""
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


def foreign(names: list[str]) -> list[str]:
    """The files of a repository that nobody may overwrite: somebody else published it."""
    return [] if MARK in names else sorted(set(names) - _OF_ANY)


def outdated(there: list[str], files: list[str]) -> list[str]:
    """Files of an earlier publication that this one does not have."""
    return [
        name for name in there if (name in _NAMES or name.startswith(_PLACES)) and name not in files
    ]


@dataclasses.dataclass(frozen=True)
class Published:
    """The repository's page, the commit at its head, and whether this publication made it."""

    url: str
    commit: str
    changed: bool


def find_token() -> str:
    """The user's token, from where huggingface_hub keeps it. Raises InputError if there is none."""
    from huggingface_hub import get_token

    token = get_token()
    if not token:
        raise InputError("no token for the hub: run hf auth login, or set HF_TOKEN")
    return token


def endpoint() -> str:
    """The hub's address, without a user name or password in it. Raises InputError if it is not an address."""
    from huggingface_hub import constants

    try:
        parts = urlsplit(constants.ENDPOINT)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:  # invalid brackets or port
        known = False
    if not known:
        raise InputError(
            "HF_ENDPOINT is no address of a hub; allowed: http:// or https:// and a host"
        )
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])).rstrip("/")


def upload(folder: Path, repo: str, private: bool, message: str, token: str) -> Published:
    """Commit the files of `folder` as the repository's head, in one commit; its other files stay.

    Raises InputError if the token, the name or the repository is not suitable, CommandFailed if the hub or the way to
    it failed. No message contains the token.
    """
    from huggingface_hub import HfApi, get_session, logging
    from huggingface_hub.utils import disable_progress_bars

    logging.set_verbosity_error()  # its warnings print addresses that let anyone upload
    if not sys.stderr.isatty():
        disable_progress_bars()
    get_session().timeout = ANSWER_S  # by default it waits without end
    host = endpoint()
    api = HfApi(token=token)
    try:
        return _upload(api, folder, repo, private, message)
    except InputError:
        raise
    except Exception as error:  # whatever the library and those below it raise becomes one line
        raise _told(error, repo, host, token) from None


def _upload(api: Any, folder: Path, repo: str, private: bool, message: str) -> Published:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    url = str(api.create_repo(repo, private=private or None, exist_ok=True))
    head = api.model_info(repo)
    files, there = files_of(folder), [file.rfilename for file in head.siblings or []]
    if private and not head.private:
        raise InputError(
            f"{url} is public, which --private does not change: make it private in its settings"
        )
    if others := foreign(there):
        names = ", ".join(others[:3])
        raise InputError(
            f"{url} holds files that tinylm did not publish ({names}); choose another name"
        )
    operations = [
        *(CommitOperationAdd(path_in_repo=name, path_or_fileobj=folder / name) for name in files),
        *(CommitOperationDelete(path_in_repo=name) for name in outdated(there, files)),
    ]
    made = api.create_commit(repo, operations, commit_message=message, parent_commit=head.sha)
    return Published(url, made.oid, made.oid != head.sha)


def _told(error: BaseException, repo: str, host: str, token: str) -> Exception:
    """One line on what went wrong between us and the hub."""
    cause: BaseException | None = error
    while cause is not None and getattr(cause, "response", None) is None:
        cause = cause.__cause__
    status = getattr(getattr(cause, "response", None), "status_code", None)
    said = str(getattr(cause, "server_message", None) or "").replace(token, "…")
    said = f" ({' '.join(said.split())[:200]})" if said.strip() else ""
    as_before = f"{repo} is as it was; run again, what was uploaded already is not sent twice"
    if status == 401:
        return InputError(
            f"{host} does not know the token (401): run hf auth login, or set HF_TOKEN to a valid one"
        )
    if status == 403:
        return InputError(
            f"{host} does not let this token write {repo} (403){said}; it needs the right to write there"
        )
    if status in (409, 412):
        return CommandFailed(
            f"{repo} was changed by somebody else meanwhile ({status}); look at it and run again"
        )
    if status is not None:
        return CommandFailed(f"{host} answered {status}{said}; {as_before}")
    what = " ".join(f"{type(error).__name__}: {error}".replace(token, "…").split())[:200]
    return CommandFailed(f"{host}: {what}; {as_before}")
