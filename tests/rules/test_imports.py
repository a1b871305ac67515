"""What may import what: packages as ARCHITECTURE.md says, no circles, nothing that is to be written here."""

import re
import subprocess
import sys
from functools import cache

from tests.support import size
from tests.support.closure import imported_names

TABLE = {
    package.name.rstrip("/"): package.may_import
    for package in size.packages((size.ROOT / "ARCHITECTURE.md").read_text("utf-8"))
}
SOURCES = {
    path.relative_to(size.ROOT).as_posix(): path.read_text("utf-8")
    for folder in ("tinylm", "stages", "studies", "benchmarks")
    for path in size.code_files()
    if path.suffix == ".py" and path.is_relative_to(size.ROOT / folder)
}
# Belong to no package: the names of `import tinylm`, and python -m tinylm.
ENTRY_POINTS = {"tinylm", "tinylm.__main__"}
# Parts of torch that are written by hand here, and the folders where they may not be used.
BY_HAND = ("tinylm/model/", "tinylm/kernels/", "tinylm/train/", "tinylm/decoding/")
FINISHED_PARTS = re.compile(
    r"torch\.optim|torch\.utils\.checkpoint|clip_grad_|nn\.(Layer|RMS)Norm|nn\.(MultiheadAttention|Transformer)"
    r"|nn\.(CrossEntropy|NLL)Loss"
    r"|\b(F|functional|torch)\.(layer_norm|rms_norm|cross_entropy|nll_loss|scaled_dot_product_attention)"
)
# On CUDA, training may use torch's fused attention.
MAY_USE_FINISHED_PARTS = {"tinylm/kernels/train/attention.py"}
SLOW_TO_IMPORT = {"torch", "datasets", "evaluate", "matplotlib", "fasttext", "pandas", "dvc"}


def module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def import_graph() -> dict[str, set[str]]:
    """{module: modules of this repository that it imports}, without empty __init__.py files."""
    files = {module_name(path): text for path, text in SOURCES.items() if text}
    return {module: imported_names(text) & set(files) for module, text in files.items()}


def package_of(module: str) -> str | None:
    """The row of the table for a module: tinylm.kernels.train.ops -> kernels.train."""
    name = module.removeprefix("tinylm.")
    rows = [package for package in TABLE if f"{name}.".startswith(f"{package}.")]
    return max(rows, key=len, default=None)


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """All modules that importing `start` imports, directly or through others."""
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting += graph[module]
    return seen


def test_packages_import_what_the_table_allows():
    graph, wrong, used = import_graph(), [], set()
    for module in graph.keys() - ENTRY_POINTS:
        package = package_of(module)
        if package is None:
            wrong.append(f"{module}: add its package to the table in ARCHITECTURE.md")
            continue
        for other in map(package_of, graph[module] - ENTRY_POINTS):
            used.add((package, other))
            if other != package and other not in TABLE[package]:
                wrong.append(f"{module}: {package} may not import {other}")
    needless = {(row, name) for row, allowed in TABLE.items() for name in allowed} - used
    wrong += [f"{row} does not import {name}: take it out of the table" for row, name in needless]
    assert sorted(wrong) == []


def test_packages_only_import_packages_above_them():
    above: set[str] = set()
    for package, allowed in TABLE.items():
        assert allowed <= above, package
        above.add(package)


def test_modules_do_not_import_each_other_in_a_circle():
    graph = import_graph()
    assert [module for module in graph if module in reachable(graph, module)] == []


def test_the_model_and_its_training_are_written_from_scratch():
    wrong = []
    for path, text in SOURCES.items():
        if path.startswith(BY_HAND) and path not in MAY_USE_FINISHED_PARTS:
            code = "\n".join(line.partition("#")[0] for line in text.splitlines())
            wrong += [f"{path}: {match[0]}" for match in FINISHED_PARTS.finditer(code)]
    assert wrong == []


def test_the_command_starts_without_slow_libraries():
    """Help, errors and exit codes come at once."""
    modules = [
        module_name(path)
        for path in SOURCES
        if path.startswith(("tinylm/base/", "tinylm/params/presets/", "tinylm/cli/"))
        and not path.endswith("__main__.py")
    ]
    assert SLOW_TO_IMPORT.isdisjoint(imported_with(modules))


def test_generating_starts_without_pandas():
    assert "pandas" not in imported_with(["tinylm.api.language_model"])


def imported_with(modules: list[str]) -> list[str]:
    """All modules that a new process has after importing these."""
    program = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.split()
