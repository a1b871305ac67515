"""Which results in this folder are current, from DVC, and which code made them, from git."""

import tomllib
from pathlib import Path
from typing import Any

from tinylm.base.config import PARAMS_FILE, InputError, read_yaml
from tinylm.base.files import require
from tinylm.experiments.git import git_or_none
from tinylm.run.lock import LOCK, md5s

CODE = ("stages/", "tinylm/")
SOURCES = ("*.py", "*.cpp", "*.h", "*.js", "*.j2")  # files that count as code, in any folder
MISSING_FROM_CACHE = "not in cache"  # as `dvc status` reports it; the file itself is as it was


def revision() -> str | None:
    """The commit of the code, with "+" if tracked files differ from it; None outside git."""
    commit = git_or_none("rev-parse", "--short=12", "HEAD")
    if commit is None:
        return None
    edited = git_or_none("status", "--porcelain", "--untracked-files=no", "--", "tinylm", "stages")
    return commit.strip() + ("+" if edited else "")


def tracked() -> list[str] | None:
    """The files here that git tracks; None outside git."""
    names = git_or_none("ls-files", "-z")
    return None if names is None else sorted(filter(None, names.split("\0")))


def untracked(*paths: str) -> list[str]:
    """The files below these paths that git neither tracks nor ignores; none outside git."""
    names = git_or_none("ls-files", "-z", "--others", "--exclude-standard", "--", *paths) or ""
    return sorted(filter(None, names.split("\0")))


def _version() -> str:
    """The version in pyproject.toml; "" where there is none."""
    path = Path("pyproject.toml")
    if not path.exists():
        return ""
    return str(tomllib.loads(path.read_text("utf-8")).get("project", {}).get("version", ""))


def _release() -> tuple[str, str]:
    """Find tinylm's last release: (its commit, its name), or ("", "") if git has no commit.

    That is the tag of the version in pyproject.toml; other tags may be a student's own. Without
    that tag, it is the commit that set the version, or else the first commit.
    """
    tag = f"v{_version()}"
    if git_or_none("merge-base", "--is-ancestor", f"refs/tags/{tag}", "HEAD") is not None:
        return f"refs/tags/{tag}", tag
    if git_or_none("rev-parse", "--is-shallow-repository") == "true\n":
        return "", ""  # its first commit has all code, whoever wrote it
    written = git_or_none("log", "-1", "--format=%H", "-G^version = ", "--", "pyproject.toml")
    commit = (
        written or (git_or_none("rev-list", "--max-parents=0", "HEAD") or "").partition("\n")[0]
    )
    commit = commit.strip()
    what = f"{commit[:12]} (the commit that set its version)" if written else commit[:12]
    return commit, what


def _cloned(release: str) -> str:
    """The commit that this clone and the default branch of its origin have in common.

    `release` where there is no origin, or where what they have in common is older.
    """
    for branch in ("origin/HEAD", "origin/main", "origin/master"):
        common = (git_or_none("merge-base", "HEAD", branch) or "").strip()
        if common and git_or_none("merge-base", "--is-ancestor", release, common) is not None:
            return common
    return release


def _changes(first: str, last: str | None = None) -> tuple[list[list[str]], str]:
    """([lines added, lines removed, file] of each file of code, who made these changes).

    last: None for the files as they are.
    """
    ends = [first] if last is None else [first, last]
    changes = git_or_none("diff", "--numstat", "--no-renames", *ends, "--", *SOURCES) or ""
    names = git_or_none("log", "--format=%an", f"{first}..{last or 'HEAD'}", "--", *SOURCES) or ""
    people = ", ".join(sorted(set(names.splitlines()))) or "no author of a commit"
    return [line.split("\t") for line in changes.splitlines()], people


def authorship() -> str:
    """Say who wrote the code, according to git: tinylm up to its last release, others after it.

    Changes that came with the clone take one line with their authors, so an untouched clone lists no
    files. Files that were changed in this clone are listed.
    """
    release, name = _release()
    if not release:
        return "unknown, since git has no commit of this code, or lacks its history (git fetch --unshallow)"
    cloned = _cloned(release)
    text = f"tinylm's code of {name}"
    files, people = _changes(release, cloned)
    if files:
        text += f"; changed since, as cloned from origin: {len(files)} files, by {people}"
    files, people = _changes(cloned)
    if not files:
        return f"{text}; files changed here: 0"
    listed = "".join(f"\n- `{name}`: +{added} −{removed}" for added, removed, name in files)
    return f"{text}; files changed here: {len(files)}, by {people}{listed}"


def read_status() -> tuple[dict[str, str], dict[str, str]]:
    """What differs from the last run of each stage, by `dvc status`.

    {stage: why its results are not of the current parameters and files}. A stage that only reads
    what a stale one wrote is not listed. {stage: the code that has changed since it ran}.
    Raises InputError without dvc.lock, or if DVC fails.
    """
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    require(LOCK)
    try:
        with Repo(".") as repo:
            changes = repo.status()
    except DvcException as error:
        raise InputError(f"dvc status: {str(error).splitlines()[0]}") from None
    stale: dict[str, str] = {}
    code: dict[str, str] = {}
    for stage, entries in changes.items():
        for path, change in _changed_paths(entries):
            if path.startswith(CODE):
                code.setdefault(stage, path)
            elif change != MISSING_FROM_CACHE:
                stale.setdefault(stage, f"{path} has changed since its last run")
    return stale, code


def _changed_paths(entries: list[Any]) -> list[tuple[str, Any]]:
    """(file, DVC's word for its change) of the inputs and outputs of a stage that changed."""
    paths: list[tuple[str, Any]] = []
    for entry in entries:
        for changed in entry.values() if isinstance(entry, dict) else ():
            for path, change in changed.items():
                name = path
                if path == PARAMS_FILE and isinstance(change, dict):
                    name = f"{', '.join(change)} of {PARAMS_FILE}"
                paths.append((name, change))
    return paths


def models_md5() -> str:
    """MD5 of stage train's output `models`, as dvc.lock has it."""
    return md5s(read_yaml(LOCK)["stages"], "train", "outs")["models"]
