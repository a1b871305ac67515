"""Which source files decide what a stage computes. dvc.yaml's deps and a snapshot's fingerprint both come from here.

They are a script, all that it imports, at its top or inside functions, all that these import, and the files beside an
imported module that are not Python (C++, style sheets, tables). Files that say how a command runs (`HOW_IT_RUNS`) are
left out: they change no result.
"""

import ast
import functools
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from tinylm.base.files import sha256

ROOT = Path(__file__).parents[2]
HOW_IT_RUNS = ("tinylm/host/", "tinylm/presets/")
BY_FILE = ("tinylm/bench",)


def _modules(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names))


@functools.cache
def imported(path: str) -> frozenset[str]:
    """Our own files that a file of the repository needs directly."""
    file = ROOT / path
    if file.suffix != ".py":
        return frozenset()
    found = {
        f"{name.replace('.', '/')}.py" for name in _modules(ast.parse(file.read_text("utf-8")))
    }
    found = {name for name in found if name.startswith("tinylm/") and (ROOT / name).is_file()}
    beside = file.parent.iterdir() if path.startswith("tinylm/") else ()
    data = {other.relative_to(ROOT).as_posix() for other in beside if _is_data(other)}
    return frozenset(name for name in found | data if not name.startswith(HOW_IT_RUNS))


def _is_data(path: Path) -> bool:
    return path.is_file() and path.suffix not in (".py", ".pyc") and not path.name.startswith(".")


def closure(*scripts: str) -> list[str]:
    """The scripts and every file that they need, in order of their names."""
    seen: set[str] = set()
    new = set(scripts)
    while new:
        seen |= new
        new = set().union(*(imported(path) for path in new)) - seen
    return sorted(seen)


def _sources(folder: Path) -> list[str]:
    """Files below a folder that a closure could hold: `__init__.py` is empty everywhere."""
    found = (
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    )
    names = (path.relative_to(ROOT).as_posix() for path in found if path.name != "__init__.py")
    return [name for name in names if not name.startswith(HOW_IT_RUNS)]


def rooms(files: Iterable[str], below: str = "tinylm") -> list[str]:
    """Files of the package as rooms: a folder of which they are much, other files one by one.

    Much is a third of what it holds, and nine tenths of a folder that has folders below it. Each file of a folder in
    `BY_FILE` serves stages of its own: the folder is named only if all of it is needed.
    """
    wanted, named = set(files), []
    for path in sorted((ROOT / below).iterdir()):
        name = path.relative_to(ROOT).as_posix()
        if path.is_dir():
            inside = _sources(path)
            needed = wanted.intersection(inside)
            is_leaf = not any(
                child.is_dir() and child.name != "__pycache__" for child in path.iterdir()
            )
            much = 1.0 if name in BY_FILE else 1 / 3 if is_leaf else 0.9
            if needed and len(needed) >= much * len(inside):
                named.append(name)
            elif needed:
                named += rooms(wanted, name)
        elif name in wanted:
            named.append(name)
    return named


def stage_code(script: str) -> list[str]:
    """The code that a stage's entry in dvc.yaml names: its script, then the rooms that it needs."""
    return [script, *rooms(closure(script))]


def code_sha256(*scripts: str) -> str:
    """One SHA-256 over what `stage_code` names, names and bytes."""
    digest = hashlib.sha256()
    for place in sorted({place for script in scripts for place in stage_code(script)}):
        for name in _sources(ROOT / place) if (ROOT / place).is_dir() else [place]:
            digest.update(f"{name} {sha256(ROOT / name)}\n".encode())
    return digest.hexdigest()
