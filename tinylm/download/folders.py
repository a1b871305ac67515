"""Dataset folders, local or from the hub: the files of each split, as `datasets` finds them."""

import glob
import os
from collections.abc import Mapping
from pathlib import Path

from tinylm.base.config import InputError
from tinylm.base.hashed_folders import refuse_unhashed
from tinylm.base.hub import reading_hub
from tinylm.base.printable import first_line
from tinylm.download.readers import SUFFIXES, file_format, quiet_datasets


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
