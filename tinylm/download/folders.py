"""Dataset folders, local or from the hub: the files of each split, as `datasets` finds them."""

import contextlib
import glob
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tinylm.base.config import InputError
from tinylm.download.readers import SUFFIXES, file_format, first_line, quiet_datasets


def local_files(path: Path, is_downloaded: bool = False) -> dict[str, list[Path]]:
    """{split: its files}. A file is split "train"; a folder has the splits that `datasets` finds.

    The README header or the file names of a folder assign files to splits. is_downloaded: the
    folder is in the hub's cache, so DVC does not track it. Raises InputError.
    """
    if os.path.isfile(path):  # unlike Path.is_file it treats a name that is too long as missing
        return {"train": [path]}
    if not os.path.isdir(path):
        raise InputError(
            f"data.path: expected a file ({', '.join(SUFFIXES)}) or a dataset folder, got "
            f"{str(path)!r}, which does not exist (to read from the hub, set data.source: hub)"
        )
    root = path.resolve()
    if glob.has_magic(str(root)) or "::" in str(root):  # `datasets` would take them as patterns
        raise InputError(f"data.path: expected a folder without * ? [ :: in its path, got {root}")
    if not is_downloaded:
        refuse_unhashed("data.path", path)
    try:
        with quiet_datasets() as (datasets, cache):
            builder = datasets.load_dataset_builder(str(root), cache_dir=cache)
            listed = dict(builder.config.data_files)
    except Exception as error:
        reason = first_line(error)
        raise InputError(f"{path}: expected a folder that `datasets` can read ({reason})") from None
    splits = {}
    for split, names in listed.items():
        once = dict.fromkeys(names)  # a README may name a file and a pattern that matches it
        splits[str(split)] = [path / os.path.relpath(name, root) for name in once]
        for file in splits[str(split)]:
            if ".." in file.relative_to(path).parts:
                raise InputError(f"{path}/README.md: expected files inside this folder, got {file}")
            file_format(file)
    if "train" not in splits:
        found = ", ".join(sorted(splits))
        raise InputError(f"{path}: expected a split named train, got {found}")
    return splits


def unread_files(folder: Path, splits: Mapping[str, list[Path]], read: set[str]) -> dict[str, str]:
    """{file: why it is not read} of a dataset folder.

    splits: what `local_files` found; read: those whose stories are read. Hidden files, Markdown and
    what `dvc add` writes are no data.
    """
    split_of: dict[Path, str] = {}
    files_read: set[Path] = set()
    for split, files in splits.items():
        split_of |= dict.fromkeys(files, split)
        if split in read:
            files_read |= set(files)
    formats = {file_format(file) for file in files_read}
    unread = {}
    for file in sorted(folder.rglob("*")):
        inside = file.relative_to(folder)
        is_hidden = any(part.startswith(".") for part in inside.parts)
        if is_hidden or file in files_read or file.is_dir() or file.suffix in (".md", ".dvc"):
            continue
        reason = "in no split"
        if file in split_of:
            reason = f"split {split_of[file]}"
        elif not file.name.lower().endswith(SUFFIXES):
            reason = "no format that tinylm reads"
        elif file_format(file) not in formats:
            reason = f"another format than {', '.join(sorted(formats))}"
        unread[inside.as_posix()] = reason
    return unread


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


def hub_folder(hub_id: str, revision: str) -> Path:
    """Download a hub dataset at a pinned revision to the hub's cache. Raises InputError.

    If a dataset has Parquet files, only those are read: other files may duplicate them.
    """
    import huggingface_hub

    with reading_hub(f"data.hub = {hub_id}@{revision}", "data.path"):
        names = huggingface_hub.list_repo_files(hub_id, repo_type="dataset", revision=revision)
        has_parquet = any(name.endswith(".parquet") for name in names)
        suffixes = (".parquet",) if has_parquet else SUFFIXES
        folder = huggingface_hub.snapshot_download(
            hub_id,
            repo_type="dataset",
            revision=revision,
            allow_patterns=["README.md", *(f"*{suffix}" for suffix in suffixes)],
        )
    return Path(folder)


@contextlib.contextmanager
def reading_hub(keys: str, local_key: str) -> Iterator[None]:
    """Turn every error of the hub's library into an InputError that names the keys.

    keys: the settings and their values; local_key: the setting for a local copy.
    """
    try:
        yield
    except Exception as error:  # offline, no network, no such id or revision, refused
        raise InputError(
            f"{keys}: cannot be read from the hub ({first_line(error)}); check name and revision, "
            f"or set {local_key} to a local copy"
        ) from None
