"""Story texts from files and from the hub, one at a time; every error names file and row or line.

Parquet, the layout of dataset folders and the hub are read through Hugging Face `datasets`; JSON lines, CSV and text
are read here, where line numbers are known. Bytes that are not UTF-8 are refused: what they should be is not known.
"""

import codecs
import contextlib
import csv
import glob
import gzip
import itertools
import json
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from tinylm.base.config import InputError
from tinylm.download.marked_text import END_OF_TEXT, TextPart, parts_of

SUFFIXES = (".parquet", ".jsonl", ".jsonl.gz", ".csv", ".csv.gz", ".txt", ".txt.gz")
MAX_STORY_BYTES = 1 << 26
PIECE = 1 << 22
HUB_TIMEOUT_S = 10.0
BATCH_ROWS = 256


def _has_suffix(path: Path) -> bool:
    return path.name.lower().endswith(SUFFIXES)


def read_file(path: Path, column: str) -> Iterator[str]:
    """Stories of one local file, its format known from its name. Raises InputError with file and line or row."""
    for found in read_parts(path, column):
        if isinstance(found, TextPart):
            yield from stories_of(found)
        else:
            yield found


def read_parts(path: Path, column: str) -> Iterator[str | TextPart]:
    """As `read_file`; a plain text with marks gives its parts, which `stories_of` reads in any process."""
    name = path.name.lower()
    if not _has_suffix(path):
        raise InputError(f"{path}: not a supported format; allowed: {', '.join(SUFFIXES)}")
    if name.endswith(".parquet"):
        return _read_parquet(path, column)
    if ".jsonl" in name:
        return _read_jsonl(path, column)
    if ".csv" in name:
        return _read_csv(path, column)
    return _read_txt(path)


def _checked(text: Any, column: str, place: str) -> str:
    if isinstance(text, str):
        return text
    held = "null" if text is None else f"{type(text).__name__} {str(text)[:40]!r}"
    raise InputError(f"{place}: column {column!r} holds {held}; allowed: text")


def _missing_column(column: str, columns: Iterable[str], place: str) -> InputError:
    names = ", ".join(str(name)[:40] for name in itertools.islice(columns, 20))
    return InputError(f"{place}: no column {column!r} (data.column); columns: {names or 'none'}")


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(line number, line) of a plain or gzip file; InputError if the file is damaged or a line has no end."""
    number = 0
    try:
        opener = gzip.open if path.name.lower().endswith(".gz") else open
        with opener(path, "rb") as handle:
            while line := handle.readline(MAX_STORY_BYTES + 1):
                number += 1
                if number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                    raise InputError(f"{path}: UTF-16; allowed: UTF-8")
                if len(line) > MAX_STORY_BYTES:
                    raise InputError(f"{path}, line {number}: longer than {MAX_STORY_BYTES} bytes")
                yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            f"{path}, after line {number}: damaged or truncated gzip file ({error})"
        ) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None


def _decoded(line: bytes, path: Path, number: int) -> str:
    """A line's text. Raises InputError with line and byte, both counted from 1, if it is not UTF-8."""
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}, line {number}, byte {error.start + 1}: 0x{line[error.start]:02x} is not UTF-8; save the file as "
            "UTF-8 (from Latin-1: iconv -f LATIN1 -t UTF-8 OLD > NEW)"
        ) from None


def _read_csv(path: Path, column: str) -> Iterator[str]:
    """Rows under a header. The separator is the one of comma, semicolon and tab under which the header has the column.

    Raises InputError for a row with other fields than the header, which is what a separator in an unquoted text gives.
    """
    csv.field_size_limit(MAX_STORY_BYTES)
    lines = (_decoded(line, path, number) for number, line in _lines(path))
    first = next(lines, "")
    separator = next(
        (mark for mark in ",;\t" if column in next(csv.reader([first], delimiter=mark), ())), ","
    )
    rows = csv.reader(itertools.chain([first], lines), delimiter=separator, strict=True)
    header: list[str] = []
    try:
        for row in rows:
            place = f"{path}, line {rows.line_num}"
            if not header:
                header = row
                if column not in header:
                    raise InputError(
                        f"{_missing_column(column, header, place)}; the first line holds their names"
                    )
            elif row and len(row) != len(header):
                raise InputError(
                    f"{place}: {len(row)} fields; the header has {len(header)}; a text with a {separator!r} in it "
                    "belongs in double quotes"
                )
            elif row:
                yield row[header.index(column)]
    except csv.Error as error:
        raise InputError(
            f"{path}, line {rows.line_num}: not CSV ({error}); is a double quote left open?"
        ) from None


def _read_jsonl(path: Path, column: str) -> Iterator[str]:
    for number, line in _lines(path):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            row = json.loads(_decoded(line, path, number))
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{place}: not JSON ({str(error)[:80]}); allowed: one object per line"
            ) from None
        if not isinstance(row, dict):
            raise InputError(f"{place}: holds {type(row).__name__}; allowed: one object per line")
        if column not in row:
            raise _missing_column(column, row, place)
        yield _checked(row[column], column, place)


def _read_txt(path: Path) -> Iterator[str | TextPart]:
    """Stories separated by `<|endoftext|>`, or by blank lines if the file has no such mark."""
    marked = any(END_OF_TEXT in line for _, line in _lines(path))
    if marked and path.name.lower().endswith(".txt"):
        return parts_of(path, PIECE, MAX_STORY_BYTES)
    return _read_by_lines(path, marked)


def _read_by_lines(path: Path, marked: bool) -> Iterator[str]:
    story: list[bytes] = []
    size = 0
    for number, line in _lines(path):
        _decoded(line, path, number)
        first, *others = (
            line.split(END_OF_TEXT) if marked else ([b"", b""] if not line.strip() else [line])
        )
        story.append(first)
        size += len(first)
        if size > MAX_STORY_BYTES:
            raise InputError(f"{path}, line {number}: a story longer than {MAX_STORY_BYTES} bytes")
        for part in others:
            if b"".join(story).strip():
                yield b"".join(story).decode()
            story, size = [part.lstrip()], len(part)
    if b"".join(story).strip():
        yield b"".join(story).decode()


def refuse_bad_line(path: Path) -> NoReturn:
    """InputError with the line of a marked file that cannot be read as it is."""
    for _ in _read_by_lines(path, True):
        pass
    raise InputError(f"{path}: changed while it was read; run again")


def raw_stories(part: TextPart) -> list[bytes]:
    """The text between the marks of a part of a plain file."""
    with open(part.path, "rb") as handle:
        handle.seek(part.start)
        stories = handle.read(part.end - part.start).split(END_OF_TEXT)
    if max(map(len, stories)) > MAX_STORY_BYTES:
        refuse_bad_line(part.path)
    if part.start == 0:
        stories[0] = stories[0].removeprefix(codecs.BOM_UTF8)
    return stories


def stories_of(part: TextPart) -> Iterator[str]:
    """As `_read_by_lines`, for this part of a plain file with marks."""
    for number, story in enumerate(raw_stories(part)):
        if part.start or number:  # a story after a mark loses the blank line there
            head, line_end, tail = story.partition(b"\n")
            story = (head + line_end).lstrip() + tail
        if story.strip():
            try:
                yield story.decode()
            except UnicodeDecodeError:
                refuse_bad_line(part.path)


@contextlib.contextmanager
def _datasets() -> Iterator[tuple[Any, str]]:
    """(the library, a temporary cache folder), without download counts and without messages of its own."""
    import datasets

    datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = (
        False  # otherwise a request to its server for each file opened
    )
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="tinylm-") as folder:
        yield datasets, folder


def _rows(dataset: Any, column: str, place: str, failed: str) -> Iterator[str]:
    """Texts of a streamed dataset; whatever the library raises becomes an InputError with the row."""
    row = 0
    batches = dataset.iter(batch_size=BATCH_ROWS)
    while True:
        try:
            batch = next(batches, None)
        except Exception as error:  # the library's readers raise all kinds: Arrow, network, fsspec
            raise InputError(f"{place}, after row {row}: {failed} ({_first_line(error)})") from None
        if batch is None:
            return
        if column not in batch:
            raise _missing_column(column, batch, place)
        for text in batch[column]:
            row += 1
            yield _checked(text, column, f"{place}, row {row}")


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}"


def _read_parquet(path: Path, column: str) -> Iterator[str]:
    from pyarrow.parquet import ParquetFile

    with _datasets() as (datasets, cache):
        damaged = "damaged or truncated parquet file"
        try:
            with ParquetFile(path) as opened:
                columns, rows = opened.schema_arrow.names, opened.metadata.num_rows
            files = {"train": [glob.escape(str(path))]}
            dataset = datasets.load_dataset(
                "parquet", data_files=files, split="train", streaming=True, cache_dir=cache
            )
        except Exception as error:
            raise InputError(f"{path}: {damaged} ({_first_line(error)})") from None
        if column not in columns:
            raise _missing_column(column, columns, str(path))
        if rows:  # one of several files may have none, on which the library's streaming fails
            yield from _rows(dataset, column, str(path), damaged)


def local_splits(path: Path) -> dict[str, list[Path]]:
    """Files of each split: {"train": [file]} for a file; for a folder as `datasets` finds them (README header,
    file names). Raises InputError; never asks the hub."""
    if os.path.isfile(path):  # unlike Path.is_file it treats a name that is too long as missing
        return {"train": [path]}
    if not os.path.isdir(path):
        raise InputError(
            f"data.path = {str(path)!r}: no such file or folder; allowed: a file ({', '.join(SUFFIXES)}) "
            "or a dataset folder (data.source: hub reads the hub)"
        )
    with _datasets() as (datasets, cache):
        try:
            builder = datasets.load_dataset_builder(str(path.resolve()), cache_dir=cache)
            found = {
                str(split): [Path(name) for name in names]
                for split, names in builder.config.data_files.items()
            }
        except Exception as error:
            raise InputError(f"{path}: not laid out as a dataset ({_first_line(error)})") from None
    for name in (name for names in found.values() for name in names):
        if not name.is_file():
            raise InputError(
                f"{path}: names {str(name)!r}, which is not a local file; data.source: local reads no others"
            )
        if not _has_suffix(name):
            raise InputError(f"{name}: not a supported format; allowed: {', '.join(SUFFIXES)}")
    if "train" not in found:
        raise InputError(f"{path}: no split 'train'; splits: {', '.join(sorted(found))}")
    return found


def hub_splits(hub_id: str, revision: str) -> list[str]:
    """Names of a hub dataset's splits, asked for with a short timeout. Raises InputError with what to do instead."""
    import huggingface_hub

    where = f"data.hub_id = {hub_id!r}, revision {revision!r}"
    instead = "check both, or read a local copy with data.source: local and data.path"
    try:
        huggingface_hub.HfApi().dataset_info(hub_id, revision=revision, timeout=HUB_TIMEOUT_S)
        with _datasets() as (datasets, cache):
            builder = datasets.load_dataset_builder(
                f"hf://datasets/{hub_id}", revision=revision, cache_dir=cache
            )
            splits = [str(split) for split in builder.config.data_files]
    except (
        Exception
    ) as error:  # offline mode, no network, no such id or revision, refused, no data files
        raise InputError(
            f"{where}: the hub cannot be read ({_first_line(error)}); {instead}"
        ) from None
    if "train" not in splits:
        raise InputError(f"{where}: no split 'train'; splits: {', '.join(splits)}")
    return splits


def read_hub(hub_id: str, revision: str, split: str, column: str) -> Iterator[str]:
    """Stories of one split of a hub dataset, streamed. Raises InputError if the connection breaks."""
    place = f"{hub_id}@{revision[:8]}, split {split!r}"
    failed = "reading from the hub broke off; run again, or use data.source: local"
    with _datasets() as (datasets, cache):
        try:
            name = f"hf://datasets/{hub_id}"  # with the prefix, a local folder of that name is not read
            dataset = datasets.load_dataset(
                name, revision=revision, split=split, streaming=True, cache_dir=cache
            )
        except Exception as error:
            raise InputError(f"{place}: {failed} ({_first_line(error)})") from None
        yield from _rows(dataset, column, place, failed)
