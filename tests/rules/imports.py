"""Rules of what may import what, read from the source. Each takes {path: text} and lists all that breaks it."""

import ast
from collections.abc import Iterable, Iterator

from tests.support.size import packages

Sources = dict[str, str]
Table = dict[str, set[str]]
HEAVY = {
    "torch",
    "datasets",
    "evaluate",
    "matplotlib",
    "fasttext",
    "pandas",
    "tokenizers",
    "sacrebleu",
}
# (a module or package, libraries that it must not load when it is imported)
LIGHT = (
    ("tinylm.base", HEAVY), ("tinylm.host", HEAVY), ("tinylm.presets", HEAVY), ("tinylm.cli", HEAVY),
    ("tinylm.download", {"torch"}), ("tinylm.vocab", {"torch"}), ("tinylm.storybook", {"torch"}), ("tinylm.report", {"torch"}),
    ("tinylm.compare", {"torch", "datasets", "evaluate", "dvc"}),
    ("tinylm.sweep", {"torch", "datasets", "evaluate", "dvc", "submitit"}),
)  # fmt: skip
LOADS_TORCH = {"tinylm.vocab.batches", "tinylm.embedding.counts"}
ENTRY_POINTS = {
    "tinylm",
    "tinylm.__main__",
}  # in no room: the names of `import tinylm`, and python -m tinylm
KNOW_DVC = (
    "tinylm.cli.mend", "tinylm.compare.provenance", "tinylm.compare.revisions", "tinylm.sweep.recording"
)  # fmt: skip


def module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


_LATER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def _for_types(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    )


def imported(node: ast.AST, lazy: bool = True) -> Iterator[str]:
    """Names of all that is imported below a node; lazy: inside functions, and for type checkers, as well."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            module = "." * child.level + (child.module or "")
            yield from (module, *(f"{module}.{alias.name}" for alias in child.names))
        elif lazy or not (isinstance(child, _LATER) or _for_types(child)):
            yield from imported(child, lazy)


def modules_of(sources: Sources, lazy: bool = True) -> dict[str, set[str]]:
    """{module: all that it imports}, without packages that hold nothing."""
    files = {
        path: text for path, text in sources.items() if text or not path.endswith("__init__.py")
    }
    return {module_name(path): set(imported(ast.parse(text), lazy)) for path, text in files.items()}


def at_start(modules: dict[str, set[str]], module: str) -> set[str]:
    """All that is imported as soon as the module is, through modules of ours as well."""
    seen: set[str] = set()
    new = {module}
    while new:
        found = set().union(*(modules.get(name, ()) for name in new))
        new = found - seen
        seen |= found
    return seen


def import_table(page: str) -> Table:
    """{package: packages that it may import}, from ARCHITECTURE.md."""
    return {package.name.rstrip("/"): set(package.may_import) for package in packages(page)}


def room_of(module: str, rooms: Iterable[str]) -> str | None:
    """tinylm.vocab.words -> text: the longest room that the module lies in."""
    place = module.removeprefix("tinylm.")
    return max(
        (room for room in rooms if f"{place}.".startswith(f"{room}.")), key=len, default=None
    )


def outside_the_table(sources: Sources, table: Table) -> list[str]:
    """Imports that the table does not allow, modules in no room, and what the table names needlessly."""
    modules, found = modules_of(sources), []
    rooms = {module: room_of(module, table) for module in modules}
    unused = {(room, other) for room, below in table.items() for other in below}
    for module, room in rooms.items():
        if module in ENTRY_POINTS:
            continue
        if room is None:
            found.append(f"{module} is in no room of the table")
            continue
        found += [
            f"{module} imports {name} by a relative name"
            for name in modules[module]
            if name.startswith(".")
        ]
        for name in sorted(modules[module] & set(modules)):
            unused.discard((room, rooms[name]))
            if rooms[name] not in {None, room, *table[room]}:
                found.append(f"{module} imports {name}: {room} may not import {rooms[name]}")
    found += [f"{room} has no module" for room in table if room not in rooms.values()]
    return found + [f"{room} imports nothing of {other}" for room, other in sorted(unused)]


def upwards(table: Table) -> list[str]:
    """Entries that name a room further down in the table: where there are none, the rooms form no circle."""
    rooms = list(table)
    return [
        f"{room} may import {other}, which does not come before it"
        for number, room in enumerate(rooms)
        for other in sorted(table[room] - set(rooms[:number]))
    ]


def knows_dvc(sources: Sources) -> list[str]:
    """Modules of the package that import dvc; those that read and make its revisions do so in functions."""
    modules = modules_of(
        {path: text for path, text in sources.items() if path.startswith("tinylm/")}
    )
    return [
        f"{module} imports {name}"
        for module, names in modules.items()
        for name in sorted(names)
        if name.partition(".")[0] in ("dvc", "dvclive") and module not in KNOW_DVC
    ]


def loads_too_much(sources: Sources) -> list[str]:
    """Modules that load a slow library, themselves or through others, as soon as they are imported."""
    modules, found = modules_of(sources, lazy=False), []
    for place, libraries in LIGHT:
        for module in modules:
            if f"{module}.".startswith(f"{place}.") and module not in LOADS_TORCH:
                loaded = {name.partition(".")[0] for name in at_start(modules, module)} & libraries
                found += [f"{module} loads {name} when it is imported" for name in sorted(loaded)]
    return found
