"""Folders of data that DVC hashes, and whether it hashes all of their files."""

import os
from collections.abc import Callable
from pathlib import Path

from tinylm.base.config import InputError


def refuse_unhashed(key: str, folder: Path) -> None:
    """Raise InputError if DVC leaves part of a folder out of its hash, and so would miss edits."""
    is_ignored = _dvc_ignore(folder)
    for place, subfolders, files in os.walk(folder):
        if ".dvc" in subfolders:
            advice = f"DVC skips a nested repository: remove {place}/.dvc, or copy the files"
        elif ".dvcignore" in files:
            advice = f"DVC allows no .dvcignore inside data: remove {place}/.dvcignore"
        elif linked := [name for name in subfolders if os.path.islink(os.path.join(place, name))]:
            advice = f"DVC does not follow the symlinked folder {place}/{linked[0]}: copy it"
        elif skipped := [name for name in files if is_ignored(os.path.join(place, name))]:
            advice = f"a .dvcignore makes DVC skip {place}/{skipped[0]}: move the file elsewhere"
        else:
            continue
        raise InputError(f"{key} = {str(folder)!r}: {advice}")


def _dvc_ignore(folder: Path) -> Callable[[str], bool]:
    """Whether a .dvcignore of the repository in the working folder has a pattern for a file.

    Hidden files are no data, so they may be ignored.
    """
    root = Path.cwd()
    if not (root / ".dvc").is_dir() or not folder.resolve().is_relative_to(root.resolve()):
        return lambda name: False
    from dvc.fs import localfs
    from dvc.ignore import DvcIgnoreFilter

    patterns = DvcIgnoreFilter(localfs, str(root))

    def is_ignored(name: str) -> bool:
        is_hidden = os.path.basename(name).startswith(".")
        return not is_hidden and bool(patterns.is_ignored_file(os.path.abspath(name)))

    return is_ignored
