"""Results of stages as files: the one reader and the one writer.

A result is a frozen dataclass. Its JSON has the same names, except where the metadata of a field of
the result itself gives another one under KEY. A field whose default is None is left out of the file
while it is None; a field without a default is always written. A number that is not finite, because
the model has diverged, is null in JSON, and None when it is read.
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tinylm.base import paths
from tinylm.base.config import InputError
from tinylm.base.files import read_json, write_json
from tinylm.base.printable import visible

if TYPE_CHECKING:
    import pydantic

KEY = "key"  # in the metadata of a field: its name in the file
T = TypeVar("T")


@dataclasses.dataclass(frozen=True, kw_only=True)
class StageTimes:
    """data/times/STAGE.json: how long a stage took, and on what.

    seconds: of the whole stage. peak_mib: of its process. conditions: processor, threads, versions,
    day, and what the stage computed with. sections: those of params.yaml that it read, with their values.
    """

    seconds: float | None = None
    peak_mib: float | None = None
    conditions: dict[str, Any] | None = None
    sections: dict[str, Any] | None = None


def to_mapping(result: Any) -> dict[str, Any]:
    """The content of a result's file: names and values, ready for JSON."""
    from pydantic import TypeAdapter  # takes a tenth of a second to import

    values: dict[str, Any] = TypeAdapter(type(result)).dump_python(
        result, exclude_defaults=True, warnings="error"
    )
    keys = _keys(type(result))
    return {keys[name]: value for name, value in values.items()}


def from_mapping(kind: type[T], content: Any) -> T:
    """A result from the content of its file; fields that `kind` does not have are ignored.

    Raises ValueError with the first field that is wrong.
    """
    from pydantic import TypeAdapter, ValidationError

    if isinstance(content, dict):
        names = {key: name for name, key in _keys(kind).items()}
        content = {names.get(key, key): value for key, value in content.items()}
    try:
        result: T = TypeAdapter(kind).validate_python(content)
    except ValidationError as error:
        raise ValueError(_first_problem(error)) from None
    return result


def _keys(kind: Any) -> dict[str, str]:
    """The name in the file of each field of a result."""
    return {field.name: field.metadata.get(KEY, field.name) for field in dataclasses.fields(kind)}


def _first_problem(error: "pydantic.ValidationError") -> str:
    """The first wrong field: the value that was expected, and the one found."""
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    if first["type"] == "missing":
        return f"expected {place}, got results without it"
    expected = first["msg"].removeprefix("Input should be ")
    got = visible(str(first["input"])[:40]).replace("\n", " ")
    return f"{place}: expected {expected}, got {got}"


def write_result(path: str | Path, result: Any) -> None:
    """Write a result of a stage."""
    write_json(path, to_mapping(result))


def read_result(kind: type[T], path: str | Path, stage: str) -> T:
    """Read a result of a stage. Raises InputError if the file is missing, damaged or from other code."""
    content = read_json(path, stage)
    try:
        return from_mapping(kind, content)
    except ValueError as error:
        raise InputError(f"{path}: {error}; run dvc repro {stage}") from None


def read_stage(kind: type[T], stage: str, folder: str | Path = ".") -> T:
    """The results of a stage of the run in a folder. Raises InputError, see `read_result`."""
    return read_result(kind, Path(folder) / paths.results(stage), stage)
