"""Story texts from local files and dataset folders, read by Hugging Face `datasets`.

JSON lines are read one by one, so that no text is taken for a date, and a name that occurs twice is
seen. Errors are one line that names the file and the row or line. Bytes that are not UTF-8 are
refused: what they should be is not known.
"""

import codecs
import contextlib
import csv
import dataclasses
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

BUILDERS = {".parquet": "parquet", ".csv": "csv", ".txt": "text"}
SUFFIXES = (".parquet", ".jsonl", ".jsonl.gz", ".csv", ".csv.gz", ".txt", ".txt.gz")
END_OF_TEXT = "<|endoftext|>"
BATCH_ROWS = 1000
CONFIG = ".huggingface.yaml"  # read by `datasets` like the header of README.md
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
    if kind == ".jsonl":
        return _json_lines(path, column)
    options: dict[str, Any] = {}
    if kind == ".parquet":
        options["batch_size"] = BATCH_ROWS
    if kind == ".csv":
        options["keep_default_na"] = False  # "NA" and "null" are texts
        options["sep"] = _separator(path, column)
    return _rows(path, column, options)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. ValueError if a name occurs twice in it."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise ValueError(f"two values named {name[:40]!r}; allowed: one")
        values[name] = value
    return values


def _json_lines(path: Path, column: str) -> Iterator[str]:
    for number, line in raw_lines(path):
        try:
            line_text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            if not line_text.strip():
                continue
            row = json.loads(line_text, object_pairs_hook=_without_repeats)
        except UnicodeDecodeError as error:
            raise InputError(f"{path}, line {number}: {_not_utf8(path, error)}") from None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number}: not JSON ({first_line(error)})") from None
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {number}: not a JSON object")
        _check_columns(f"{path}, line {number}", column, list(row))
        text = row[column]
        if not isinstance(text, str):
            shown = str(text)[:40]
            raise InputError(
                f"{path}, line {number}: column {column!r} holds {shown}; allowed: text"
            )
        yield text


def _not_utf8(path: Path, error: UnicodeDecodeError) -> str:
    """What is wrong with the bytes of a line, and the command that most likely converts them."""
    encoding = "CP1252"  # of Windows; unlike Latin-1 it has quotation marks
    if error.object.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "UTF-16"
    packed = " (unpacked)" if path.name.lower().endswith(".gz") else ""
    return (
        f"byte {error.start + 1} is not UTF-8; save the file as UTF-8, or if it is {encoding}: "
        f"iconv -f {encoding} -t UTF-8 {path.name.removesuffix('.gz')} > NEW{packed}"
    )


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
    """The one of comma, semicolon and tab that makes `column` one of the header's fields.

    Raises InputError if two fields have that name.
    """
    _, line = next(raw_lines(path), (0, b""))
    header = line.decode("utf-8-sig", "replace").splitlines()[:1]  # a line may end with CR alone
    for separator in ",;\t":
        fields = next(csv.reader(header, delimiter=separator), [])
        if fields.count(column) > 1:
            raise InputError(f"{path}, line 1: two columns named {column!r}; allowed: one")
        if column in fields:
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
                _check_columns(str(path), column, table.column_names)
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
            if kind != ".parquet" and (bad_line := _bad_line(path)):
                raise InputError(f"{path}, {bad_line}") from None
            raise InputError(
                f"{path}, after row {row}: cannot be read ({first_line(error)})"
            ) from None


def _check_columns(where: str, column: str, columns: list[str]) -> None:
    if INDEX_COLUMN in columns:
        raise InputError(
            f"{where}: a row has more fields than the header; a text with a separator in it "
            "belongs in double quotes"
        )
    if column not in columns:
        names = ", ".join(name[:40] for name in columns[:20]) or "none"
        raise InputError(f"{where}: no column {column!r} (data.column); columns: {names}")


def _bad_line(path: Path) -> str:
    """The first line that is not UTF-8, "" if there is none."""
    for number, line in raw_lines(path):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            return f"line {number}: {_not_utf8(path, error)}"
    return ""


@dataclasses.dataclass(frozen=True)
class Files:
    """The files of each split, and the names of the files in the folder that are in no split."""

    splits: dict[str, list[Path]]
    left_out: list[str] = dataclasses.field(default_factory=list)


def local_files(path: Path, is_downloaded: bool = False) -> Files:
    """Split "train" for a file, for a folder the splits as `datasets` finds them.

    A folder's README header or its file names assign files to splits. is_downloaded: the hub's
    library wrote the folder, where each file is a link into its cache. Raises InputError, also for
    a header that names anything outside the folder; never contacts the hub.
    """
    if os.path.isfile(path):  # unlike Path.is_file it treats a name that is too long as missing
        return Files({"train": [path]})
    if not os.path.isdir(path):
        raise InputError(
            f"data.path = {str(path)!r}: no such file or folder; allowed: a file "
            f"({', '.join(SUFFIXES)}) or a dataset folder (data.source: hub reads the hub)"
        )
    try:
        _refuse_outside(path)
        with quiet_datasets() as (datasets, cache):
            builder = datasets.load_dataset_builder(str(path.resolve()), cache_dir=cache)
            listed = dict(builder.config.data_files)
    except InputError:
        raise
    except Exception as error:
        reason = first_line(error)
        raise InputError(f"{path}: not laid out as a dataset ({reason})") from None
    splits = {}
    root = path.resolve()
    for split, names in listed.items():
        splits[str(split)] = [path / os.path.relpath(name, root) for name in names]
        for file in splits[str(split)]:
            if not is_downloaded and not file.resolve().is_relative_to(root):
                raise InputError(f"{file}: a link to outside the folder; allowed: a copy")
            _format(file)
    if "train" not in splits:
        raise InputError(f"{path}: no split 'train'; splits: {', '.join(sorted(splits))}")
    return Files(splits, _other_files(path, splits))


def _refuse_outside(folder: Path) -> None:
    """InputError if a header names a file that is not in the folder; `datasets` would read it."""
    import yaml
    from huggingface_hub import DatasetCard

    headers = []
    if (folder / "README.md").is_file():
        card = DatasetCard((folder / "README.md").read_text("utf-8"), ignore_metadata_errors=True)
        headers.append(("README.md", card.data.to_dict()))
    if (folder / CONFIG).is_file():
        headers.append((CONFIG, yaml.safe_load((folder / CONFIG).read_text("utf-8")) or {}))
    for file, header in headers:
        for config in header.get("configs") or []:
            for name in _texts_in([config.get("data_files"), config.get("data_dir")]):
                is_inside = ".." not in Path(name).parts and not os.path.isabs(name)
                if not is_inside or ":" in name or name.startswith("~"):
                    raise InputError(f"{folder / file}: names {name!r}; allowed: files in {folder}")


def _texts_in(value: Any) -> Iterator[str]:
    """Every text within lists and mappings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(inner)


def _other_files(folder: Path, splits: dict[str, list[Path]]) -> list[str]:
    """The files of a folder that are in no split, without README.md and hidden ones."""
    read = {str(file.relative_to(folder)) for files in splits.values() for file in files}
    others = []
    for file in sorted(folder.rglob("*")):
        name = str(file.relative_to(folder))
        is_hidden = any(part.startswith(".") for part in Path(name).parts)
        if file.is_file() and not is_hidden and name not in {*read, "README.md"}:
            others.append(name)
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
