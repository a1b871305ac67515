"""What a repository on the hub is called, and which of its files a publication holds."""

import re
from pathlib import Path

from tinylm.base.config import InputError

MARK = "pipeline/params.yaml"  # a folder or repository that holds it was written by us
_REPO = re.compile(r"[A-Za-z0-9][\w.-]{0,38}/[A-Za-z0-9_][\w.-]{0,55}", re.ASCII)
_PLACES = ("tinylm/", "report/", "pipeline/", "pictures/")
_NAMES = {
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "modeling_tinylm.py",
    "tokenizer.json",
    "tokenizer_config.json",
}
_OF_ANY = {".gitattributes", ".gitignore", "LICENSE", "README.md"}  # a repository with nothing else is a new one


def check_repo(repo: str) -> None:
    """Raise InputError for what the hub takes for no repository's name."""
    odd = ".." in repo or "--" in repo or repo.endswith((".git", ".", "-")) or "./" in repo or "-/" in repo
    if odd or not _REPO.fullmatch(repo):
        raise InputError(f"REPO {repo!r}; allowed: OWNER/NAME of letters, digits, _ . and - such as me/small-stories")


def files_of(folder: Path) -> list[str]:
    """Every file of a folder, relative to it, sorted."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def foreign(names: list[str]) -> list[str]:
    """The files of a repository that nobody may overwrite: somebody else published it."""
    return [] if MARK in names else sorted(set(names) - _OF_ANY)


def outdated(there: list[str], files: list[str]) -> list[str]:
    """Files of an earlier publication that this one does not hold."""
    return [name for name in there if (name in _NAMES or name.startswith(_PLACES)) and name not in files]
