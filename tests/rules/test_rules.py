"""Each rule over the source files lists all offenders."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import FULL
from tests.rules import calls, imports, names
from tests.support.clone import working_tree
from tests.support.size import is_data

ROOT = Path(__file__).parents[2]
SOURCES = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for folder in ("tinylm", "stages", "benchmarks", "studies")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if not is_data(path)
}
TABLE = imports.import_table((ROOT / "ARCHITECTURE.md").read_text("utf-8"))
ENTRY_POINTS = ("tinylm/__init__.py", "tinylm/cli/__init__.py", "stages/__init__.py")
Rule = Callable[[dict[str, str]], list[str]]


def is_too_long(sources: dict[str, str]) -> list[str]:
    limits = {path: 80 if path.startswith("stages/") else 400 for path in sources}
    return [
        f"{path} has {lines} lines"
        for path, text in sources.items()
        if (lines := text.count("\n")) > limits[path]
    ]


def is_no_plain_package(sources: dict[str, str]) -> list[str]:
    """Folders without an `__init__.py`, and such files that hold something."""
    inits = {f"{path.rpartition('/')[0]}/__init__.py" for path in sources}
    return [f"{path} is missing" for path in sorted(inits - set(sources))] + [
        f"{path} is not empty"
        for path in sorted(inits & set(sources))
        if sources[path] and path not in ENTRY_POINTS
    ]


RULES: dict[str, Rule] = {
    "imports": partial(imports.outside_the_table, table=TABLE),
    "dvc": imports.knows_dvc,
    "loads": imports.loads_too_much,
    "by hand": calls.uses_finished_parts,
    "length": is_too_long,
    "packages": is_no_plain_package,
    "names": names.says_nothing,
}


@pytest.mark.parametrize("rule", RULES)
def test_every_source_file_keeps(rule):
    assert RULES[rule](SOURCES) == []


def test_no_room_may_import_one_further_down():
    assert imports.upwards(TABLE) == []


def test_nothing_but_files_py_writes():
    assert calls.writes_past_files_py(SOURCES) == []


def test_a_commit_of_everything_holds_no_large_file():
    large = [name for name in working_tree(ROOT) if (ROOT / name).stat().st_size > 512 << 10]
    assert large == ["docs/lab/index.html"]  # whose limit tests/lab/test_docs_lab.py checks


def test_what_is_left_to_test_all_exists():
    for name in FULL:
        path, _, function = name.partition("::")
        assert (ROOT / "tests" / path).exists(), name
        assert not function or f"def {function}(" in (ROOT / "tests" / path).read_text("utf-8"), (
            name
        )
