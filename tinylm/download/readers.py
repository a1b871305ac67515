"""Story texts from local files and dataset folders, read by Hugging Face `datasets`.

Errors are one line that names the file and the row or line. Bytes that are not UTF-8 are refused:
what they should be is not known.
"""

import contextlib
import csv
import glob
import gzip
import json
import os
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError

BUILDERS = {".parquet": "parquet", ".jsonl": "json", ".csv": "csv", ".txt": "text"}
SUFFIXES = (".parquet", ".jsonl", ".jsonl.gz", ".csv", ".csv.gz", ".txt", ".txt.gz")
END_OF_TEXT = "<|endoftext|>"
BATCH_ROWS = 1000
INDEX_COLUMN = "__index_level_0__"  # pandas puts a field there for which the header has no name


@contextlib.contextmanager
def quiet_datasets() -> Iterator[tuple[Any, str]]:
    """(the library `datasets`, a temporary cache folder); it sends no counts and prints nothing."""
    import datasets

    datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = False  # else it contacts its server for each file
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="tinylm-") as folder:
        yield datasets, folder


def first_line(error: Exception) -> str:
    """An error's type and the first line of its message."""
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:160]}"


@contextlib.contextmanager
def reading_hub(keys: str, local_key: str) -> Iterator[None]:
    """Whatever the hub's library raises becomes an InputError that names the keys.

    keys: the settings, with their values; local_key: the setting of a local copy.
    """
    try:
        yield
    except Exception as error:  # offline, no network, no such id or revision, refused
        raise InputError(
            f"{keys}: the hub cannot be read ({first_line(error)}); check both, or name a local "
            f"copy in {local_key}"
        ) from None


def _format(path: Path) -> str:
    """The key of BUILDERS that a file's name ends with. Raises InputError if there is none."""
    name = path.name.lower()
    if not name.endswith(SUFFIXES):
        raise InputError(f"{path}: not a supported format; allowed: {', '.join(SUFFIXES)}")
    return "." + name.removesuffix(".gz").rpartition(".")[2]


def read_file(path: Path, column: str) -> Iterator[str]:
    """Stories of one local file, its format known from its name. Raises InputError.

    column: the one that holds the story; a text file has none, and its stories are separated by
    `<|endoftext|>`, or by blank lines if the file has no such mark.
    """
    kind = _format(path)
    if kind == ".txt":
        return filter(str.strip, _read_text(path))
    options: dict[str, Any] = {}
    if kind == ".parquet":
        options["batch_size"] = BATCH_ROWS
    if kind == ".jsonl":
        options["on_mixed_types"] = None  # a number among texts is an error
    if kind == ".csv":
        options["keep_default_na"] = False  # "NA" and "null" are texts
        options["sep"] = _separator(path, column)
    return _rows(path, column, options)


def _read_text(path: Path) -> Iterator[str]:
    if not any(END_OF_TEXT.encode() in line for _, line in raw_lines(path)):
        yield from _rows(path, "text", {"sample_by": "paragraph"})
        return
    story = ""
    for line in _rows(path, "text", {"keep_linebreaks": True}):
        story += line
        if END_OF_TEXT in line:
            *ended, story = story.split(END_OF_TEXT)
            yield from ended
    yield story


def raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(line number, line) of a plain or gzip file. Raises InputError if it is damaged."""
    number = 0
    is_gzip = path.name.lower().endswith(".gz")
    try:
        with gzip.open(path) if is_gzip else open(path, "rb") as handle:
            for number, line in enumerate(handle, start=1):
                yield number, line
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}, after line {number}: damaged gzip file ({error})") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None


def _separator(path: Path, column: str) -> str:
    """The one of comma, semicolon and tab that makes `column` one of the header's fields."""
    _, header = next(raw_lines(path), (0, b""))
    text = header.decode("utf-8-sig", "replace")
    for separator in ",;\t":
        if column in next(csv.reader([text], delimiter=separator), ()):
            return separator
    return ","


def _rows(path: Path, column: str, options: dict[str, Any]) -> Iterator[str]:
    """The texts of a column, streamed. Raises InputError for any error of the library."""
    kind = _format(path)
    if os.path.getsize(path) == 0 and kind != ".parquet":
        return
    row = 0
    with quiet_datasets() as (datasets, cache):
        try:
            dataset = datasets.load_dataset(
                BUILDERS[kind],
                data_files={"train": [glob.escape(str(path))]},
                split="train",
                streaming=True,
                cache_dir=cache,
                **options,
            )
            for table in dataset.with_format("arrow").iter(batch_size=BATCH_ROWS):
                _check_columns(path, column, table.column_names)
                for text in table[column].to_pylist():
                    row += 1
                    if not isinstance(text, str):
                        raise InputError(
                            f"{path}, row {row}: column {column!r} holds {str(text)[:40]}; "
                            "allowed: text"
                        )
                    yield text
        except (InputError, GeneratorExit):
            raise
        except Exception as error:  # the library's readers raise all kinds: Arrow, pandas, fsspec
            where = f"after row {row}"
            if kind != ".parquet":
                where = _bad_line(path, kind, column) or where
            raise InputError(f"{path}, {where}: cannot be read ({first_line(error)})") from None


def _check_columns(path: Path, column: str, columns: list[str]) -> None:
    if INDEX_COLUMN in columns:
        raise InputError(
            f"{path}: a row has more fields than the header; a text with a separator in it "
            "belongs in double quotes"
        )
    if column not in columns:
        names = ", ".join(name[:40] for name in columns[:20]) or "none"
        raise InputError(f"{path}: no column {column!r} (data.column); columns: {names}")


def _bad_line(path: Path, kind: str, column: str) -> str:
    """The first line that cannot be read by itself, "" if there is none."""
    for number, line in raw_lines(path):
        try:
            text = line.decode("utf-8-sig")
            if kind == ".jsonl" and text.strip():
                value = json.loads(text).get(column)
                if not isinstance(value, str | None):
                    return f"line {number}: column {column!r} is no text"
        except UnicodeDecodeError as error:
            return f"line {number}: byte {error.start + 1} is not UTF-8"
        except (ValueError, RecursionError, AttributeError):
            return f"line {number}: not a JSON object"
    return ""


def local_splits(path: Path) -> dict[str, list[Path]]:
    """The files of each split: {"train": [file]} for a file, for a folder as `datasets` finds them.

    A folder's README header or its file names assign files to splits; other files are not read.
    Raises InputError; never contacts the hub.
    """
    if os.path.isfile(path):  # unlike Path.is_file it treats a name that is too long as missing
        return {"train": [path]}
    if not os.path.isdir(path):
        raise InputError(
            f"data.path = {str(path)!r}: no such file or folder; allowed: a file "
            f"({', '.join(SUFFIXES)}) or a dataset folder (data.source: hub reads the hub)"
        )
    with quiet_datasets() as (datasets, cache):
        try:
            builder = datasets.load_dataset_builder(str(path.resolve()), cache_dir=cache)
            listed = dict(builder.config.data_files)
        except Exception as error:
            reason = first_line(error)
            raise InputError(f"{path}: not laid out as a dataset ({reason})") from None
    splits = {str(split): [Path(name) for name in names] for split, names in listed.items()}
    for files in splits.values():
        for file in files:
            if not file.is_file():
                raise InputError(f"{path}: names {str(file)!r}, which is not a local file")
            _format(file)
    if "train" not in splits:
        raise InputError(f"{path}: no split 'train'; splits: {', '.join(sorted(splits))}")
    return splits


def hub_folder(hub_id: str, revision: str) -> Path:
    """A dataset of the hub at a pinned revision, downloaded to the hub's cache. Raises InputError.

    A dataset that has parquet files is read from those alone: other files may repeat them.
    """
    import huggingface_hub

    with reading_hub(f"data.hub_id = {hub_id!r}, revision {revision!r}", "data.path"):
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
