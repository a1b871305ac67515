"""The stories of one file (Parquet, JSON Lines, CSV, plain text), streamed by library `datasets`.

The library yields the rows of Parquet files and the lines of all others; each file is read once. An
error message is one line that names the file and the line or row.

CSV and JSON are parsed here, because the library's own parsers turn texts such as 007 and null into
numbers and missing values, and do not name the line of a damaged row. The library reads the lines,
because plain Python would name another line where a file of more than 10 MiB is damaged, and would
accept names with `::`.
"""

import contextlib
import csv
import glob
import json
import os
import tempfile
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError
from tinylm.base.printable import first_line
from tinylm.text.cleaning import clean_text
from tinylm.text.stories import END_OF_TEXT

SUFFIXES = (".parquet", ".jsonl", ".jsonl.gz", ".csv", ".csv.gz", ".txt", ".txt.gz")
HEAD_LINES = 100_000  # if END_OF_TEXT is in these, blank lines separate nothing
BATCH_ROWS = 1000
LONGEST_FIELD = 1 << 30  # characters; by default the csv module rejects more than 128 Ki
Texts = Iterator[tuple[int, Any]]  # (line or row number, the story)


@contextlib.contextmanager
def quiet_datasets() -> Iterator[tuple[Any, str]]:
    """Yield (the library `datasets`, silent and sending no counts; a temporary cache folder)."""
    import datasets

    datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = False  # else it contacts its server for each file
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="tinylm-") as folder:
        yield datasets, folder


def file_format(path: Path) -> str:
    """The format by the file's extension, ignoring `.gz`. Raises InputError for an unknown one."""
    name = path.name.lower()
    if not name.endswith(SUFFIXES):
        raise InputError(f"{path}: expected a file that ends in {', '.join(SUFFIXES)}")
    return name.removesuffix(".gz").rpartition(".")[2]


def read_file(path: Path, column: str) -> Iterator[str]:
    """The stories of one local file, whose extension gives the format. Raises InputError.

    column: the column that holds the story. A text file has no columns: its stories are separated
    by `<|endoftext|>` or, if it has no such marker, by blank lines.
    """
    parsers = {
        "txt": _text_stories,
        "jsonl": _json_texts,
        "csv": _csv_texts,
        "parquet": _parquet_texts,
    }
    parse = parsers[file_format(path)]
    if not os.path.getsize(path):  # the library rejects an empty file
        return
    unit = "row" if parse is _parquet_texts else "line"
    number = 0
    try:
        for number, text in parse(path, column):
            if not isinstance(text, str):
                value = str(text)[:40]
                where = f"{path}, {unit} {number}"
                raise InputError(f"{where}: expected text in column {column!r}, got {value}")
            yield text
    except InputError:
        raise
    except UnicodeDecodeError:
        raise InputError(
            f"{path}: expected UTF-8 text after line {number}, got other bytes"
        ) from None
    except Exception as error:  # the library passes on all kinds: Arrow, gzip, the system
        reason = first_line(error)
        raise InputError(f"{path} cannot be read after {unit} {number}: {reason}") from None


def _tables(path: Path, builder: str, **options: Any) -> Iterator[Any]:
    """Stream a file as Arrow tables, through one of the library's builders."""
    with quiet_datasets() as (datasets, cache):
        files = {"train": [glob.escape(str(path))]}
        options |= {"data_files": files, "split": "train", "streaming": True, "cache_dir": cache}
        dataset = datasets.load_dataset(builder, **options)
        yield from dataset.with_format("arrow").iter(BATCH_ROWS)


def _lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file; every kind of line ending is returned as a line feed."""
    tables = _tables(path, "text", keep_linebreaks=True)
    lines = chain.from_iterable(table["text"].to_pylist() for table in tables)
    for number, line in enumerate(lines, start=1):
        if "\0" in line:  # such as UTF-16 or an archive
            raise InputError(f"{path}, line {number}: expected UTF-8 text, got a NUL byte")
        yield line.removeprefix("\ufeff") if number == 1 else line  # the byte order mark


def _text_stories(path: Path, column: str) -> Texts:
    """Stories separated by markers or, if the first lines have none, also by blank lines."""
    lines = _lines(path)
    head = list(islice(lines, HEAD_LINES))
    has_marks = any(END_OF_TEXT in line for line in head)
    story = ""
    number = 0
    for number, line in enumerate(chain(head, lines), start=1):
        if END_OF_TEXT in line:
            *ended, story = (story + line).split(END_OF_TEXT)
            yield from ((number, text) for text in ended if text.strip())
        elif has_marks or clean_text(line, repair=False):
            story += line
        elif story:
            yield number, story
            story = ""
    if story.strip():
        yield number, story


def _json_texts(path: Path, column: str) -> Texts:
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            row = json.loads(line, object_pairs_hook=tuple)  # a dict would hide a second column
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, tuple):
            raise InputError(f"{where}: expected a JSON object, got {line[:40]!r}")
        _check_columns(where, column, [name for name, _ in row])
        text = dict(row)[column]
        yield number, text if isinstance(text, str) else json.loads(line)[column]


def _csv_texts(path: Path, column: str) -> Texts:
    """Texts of a CSV file with a header, delimited by whichever of , ; and tab yields `column`."""
    csv.field_size_limit(LONGEST_FIELD)
    lines = _lines(path)
    header = next(filter(str.strip, lines), "")
    separator = _separator(header, column)
    reader = csv.reader(chain([header], lines), delimiter=separator, strict=True)
    try:
        names = next(reader, [])
        _check_columns(f"{path}, line 1", column, names)
        index = names.index(column)
        for row in filter(None, reader):
            if not index < len(row) <= len(names):
                raise csv.Error(f"{len(row)} fields, but the header has {len(names)}")
            yield reader.line_num, row[index]
    except csv.Error as error:
        raise InputError(
            f"{path}, line {reader.line_num}: not valid CSV ({error}); expected a field for each "
            "column of the header, quoted if it has a delimiter or a quotation mark, which is doubled"
        ) from None


def _separator(header: str, column: str) -> str:
    """The first of , ; and tab that makes `column` a field of the header; a comma if none does."""
    for separator in (",", ";", "\t"):
        fields = next(csv.reader([header], delimiter=separator), [])
        if column in fields:
            return separator
    return ","


def _parquet_texts(path: Path, column: str) -> Texts:
    row = 0
    for table in _tables(path, "parquet", batch_size=BATCH_ROWS):
        _check_columns(str(path), column, table.column_names)
        for text in table[column].to_pylist():
            row += 1
            yield row, text


def _check_columns(where: str, column: str, columns: list[str]) -> None:
    if columns.count(column) != 1:
        names = ", ".join(name[:40] for name in columns[:20]) or "none"
        raise InputError(f"{where}: expected one column {column!r} (data.column), got {names}")
