"""Story texts from local files and dataset folders, read by Hugging Face `datasets`.

JSON lines are read one by one, so that no text is parsed as a date. Errors are one line that names
the file and the row or line. Input that would corrupt or join texts is refused first: bytes that
are not UTF-8, a misplaced quotation mark, a repeated column name.
"""

import contextlib
import csv
import glob
import gzip
import io
import json
import os
import re
import tempfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError

SUFFIXES = (".parquet", ".jsonl", ".jsonl.gz", ".csv", ".csv.gz", ".txt", ".txt.gz")
END_OF_TEXT = "<|endoftext|>"
BATCH_ROWS = {"text": 10_000, "csv": 1000, "parquet": 1000}  # a row of text is a line
LONGEST_FIELD = 1 << 30  # characters; the library csv refuses more than 128 Ki otherwise
CONFIG = ".huggingface.yaml"  # read by `datasets` like the header of README.md
OUTSIDE = re.compile(r"""['"/]\.\.['"/]|['"][/~]|://|::""")  # a name that leaves its folder


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
    """Turn every error of the hub's library into an InputError that names the keys.

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
    """The format that a file's name ends with, without `.gz`. Raises InputError for any other."""
    name = path.name.lower()
    if not name.endswith(SUFFIXES):
        raise InputError(f"{path}: not a supported format; allowed: {', '.join(SUFFIXES)}")
    return "." + name.removesuffix(".gz").rpartition(".")[2]


def read_file(path: Path, column: str) -> Iterator[str]:
    """Stories of one local file, its format known from its name. Raises InputError.

    column: the one that holds the story. A text file has none: `<|endoftext|>` separates its
    stories, or blank lines if it has no such mark.
    """
    kind = _format(path)
    if kind == ".txt":
        yield from filter(str.strip, _stories(path))
        return
    texts: Iterator[Any]
    if kind == ".jsonl":
        texts = _json_texts(path, column)
    elif kind == ".csv":
        texts = _csv_texts(path, column)
    else:
        texts = _column(path, "parquet", column, batch_size=BATCH_ROWS["parquet"])
    for row, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            value = str(text)[:40]
            raise InputError(f"{path}, row {row}: column {column!r} holds {value}; allowed: text")
        yield text


def raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(line number, line) of a plain or gzip file. Raises InputError if it is damaged."""
    number = 0
    is_gzip = path.name.lower().endswith(".gz")
    try:
        with gzip.open(path) if is_gzip else open(path, "rb") as handle:
            for number, line in enumerate(handle, start=1):
                yield number, line
    except (EOFError, OSError, zlib.error) as error:
        reason = first_line(error)
        raise InputError(f"{path}, after line {number}: cannot be read ({reason})") from None


def _text_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, each with its end: a line feed for every kind of line end.

    Raises InputError for bytes that are not UTF-8, and for NUL, which UTF-16 and archives have.
    """
    for number, line in raw_lines(path):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            raise InputError(f"{path}, line {number}: not UTF-8; allowed: text, saved as UTF-8")
        yield from io.StringIO(text, newline=None)


def _column(path: Path, builder: str, column: str, **options: Any) -> Iterator[Any]:
    """The values of a column by one of the library's builders, streamed. Raises InputError."""
    row = 0
    with quiet_datasets() as (datasets, cache):
        if builder == "csv":  # neither numbers nor dates are parsed
            options["features"] = datasets.Features({column: datasets.Value("string")})
        try:
            dataset = datasets.load_dataset(
                builder,
                data_files={"train": [glob.escape(str(path))]},
                split="train",
                streaming=True,
                cache_dir=cache,
                **options,
            )
            for table in dataset.with_format("arrow").iter(BATCH_ROWS[builder]):
                _check_columns(str(path), column, table.column_names)
                for value in table[column].to_pylist():
                    row += 1
                    yield value
        except InputError:
            raise
        except Exception as error:  # the library's readers raise all kinds: Arrow, pandas, fsspec
            reason = first_line(error)
            raise InputError(f"{path}, after row {row}: cannot be read ({reason})") from None


def _stories(path: Path) -> Iterator[str]:
    """Stories between marks, or between lines of white space alone if there is no mark."""
    has_marks = False
    for line in _text_lines(path):
        has_marks = has_marks or END_OF_TEXT in line
    if not os.path.getsize(path):  # the library refuses it
        return
    story = ""
    for line in _column(path, "text", "text", keep_linebreaks=True, encoding="utf-8-sig"):
        if has_marks or line.strip():
            story += line
        else:
            yield story
            story = ""
        if END_OF_TEXT in line:
            *ended, story = story.split(END_OF_TEXT)
            yield from ended
    yield story


def _json_texts(path: Path, column: str) -> Iterator[Any]:
    for number, line in enumerate(_text_lines(path), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise InputError(f"{where}: allowed: one JSON object in each line")
        _check_columns(where, column, list(row))
        yield row[column]


def _csv_header(path: Path, separator: str) -> list[str]:
    return next(filter(None, csv.reader(_text_lines(path), delimiter=separator)), [])


def _csv_texts(path: Path, column: str) -> Iterator[str]:
    """Texts below a header. The separator is the one that makes `column` a field: a comma, a semicolon or a tab."""
    csv.field_size_limit(LONGEST_FIELD)
    separator = max(",;\t", key=lambda each: column in _csv_header(path, each))
    if header := _csv_header(path, separator):
        _check_columns(f"{path}, line 1", column, header)
        _check_csv(path, separator, header.index(column))
        options = {"sep": separator, "keep_default_na": False, "encoding": "utf-8-sig"}
        yield from _column(path, "csv", column, **options)  # "NA" and "null" are texts


def _check_csv(path: Path, separator: str, index: int) -> None:
    """Refuse a row that the library would join, cut or shift. index: the place of the text's field."""
    reader = csv.reader(_text_lines(path), delimiter=separator, strict=True)
    rows = filter(None, reader)
    try:
        width = len(next(rows))
        is_whole = all(index < len(row) <= width for row in rows)
    except csv.Error:
        is_whole = False
    if not is_whole:
        raise InputError(
            f"{path}, line {reader.line_num}: not CSV; allowed: a field for each column of line 1, in "
            "double quotes if it has a separator or a quotation mark, which is doubled"
        )


def _check_columns(where: str, column: str, columns: list[str]) -> None:
    if column not in columns:
        names = ", ".join(name[:40] for name in columns[:20]) or "none"
        raise InputError(f"{where}: no column {column!r} (data.column); columns: {names}")
    if columns.count(column) > 1:
        raise InputError(f"{where}: two columns named {column!r}; allowed: one")


def local_files(path: Path, is_downloaded: bool = False) -> dict[str, list[Path]]:
    """{split: its files}: a file is split "train"; a folder has the splits that `datasets` finds.

    A folder's README header or its file names assign files to splits. is_downloaded: its files are
    links into the hub's cache. Raises InputError, also for a header or a link that names anything
    outside the folder; never contacts the hub.
    """
    if os.path.isfile(path):  # unlike Path.is_file it treats a name that is too long as missing
        return {"train": [path]}
    if not os.path.isdir(path):
        raise InputError(
            f"data.path = {str(path)!r}: no such file or folder; allowed: a file "
            f"({', '.join(SUFFIXES)}) or a dataset folder (data.source: hub reads the hub)"
        )
    root = path.resolve()
    if any(mark in str(root) for mark in ("*", "?", "[", "::", "\n")):  # patterns for `datasets`
        raise InputError(f"{str(root)!r}: allowed for a folder: no * ? [ :: or line break in it")
    try:
        _refuse_outside(path)
        with quiet_datasets() as (datasets, cache):
            builder = datasets.load_dataset_builder(str(root), cache_dir=cache)
            listed = dict(builder.config.data_files)
    except InputError:
        raise
    except Exception as error:
        reason = first_line(error)
        raise InputError(f"{path}: not laid out as a dataset ({reason})") from None
    splits = {}
    for split, names in listed.items():
        splits[str(split)] = [path / os.path.relpath(name, root) for name in names]
        for file in splits[str(split)]:
            if not is_downloaded and not file.resolve().is_relative_to(root):
                raise InputError(f"{file}: a link to outside the folder; allowed: a copy")
            _format(file)
    if "train" not in splits:
        raise InputError(f"{path}: no split 'train'; splits: {', '.join(sorted(splits))}")
    return splits


def _refuse_outside(folder: Path) -> None:
    """InputError if the header names a file that is not in the folder; `datasets` would read it."""
    from huggingface_hub import DatasetCard

    if (folder / CONFIG).exists():
        raise InputError(f"{folder / CONFIG}: allowed: its content as the header of README.md")
    page = folder / "README.md"
    if page.is_file():
        header = DatasetCard(page.read_text("utf-8"), ignore_metadata_errors=True).data.to_dict()
        for config in header.get("configs") or []:
            named = repr([config.get("data_files"), config.get("data_dir")])
            if OUTSIDE.search(named):
                raise InputError(f"{page}: names {named[:200]}; allowed: files in {folder}")


def other_files(folder: Path, read: Collection[Path]) -> list[str]:
    """The files of a folder that are not read, without README.md and hidden ones."""
    others = []
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder)
        is_hidden = any(part.startswith(".") for part in name.parts)
        if not (file.is_dir() or is_hidden or file in read or str(name) == "README.md"):
            others.append(str(name))
    return others


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
