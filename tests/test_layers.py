"""The import direction of the package, read from the source: what lies below knows nothing of what lies above."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# A unit may import the units named; units on one line of the design that are joined by | know nothing of each other.
GROUND = {"compiled", "config", "files", "memory", "processes", "seeding", "runtime", "command", "presets", "workers"}
TRAINING = GROUND | {"text", "model", "training"}
DECODING = GROUND | {"text", "model", "decoding"}
SCORING = TRAINING | DECODING | {"scoring"}
TOP = SCORING | {"bench", "reporting", "cli", "compare"}
MAY_IMPORT = {
    **dict.fromkeys(GROUND, GROUND),
    "text": GROUND | {"text"},
    "model": GROUND | {"model"},
    "training": TRAINING,
    "decoding": DECODING,
    "scoring": SCORING,
    **dict.fromkeys(("bench", "reporting"), TOP - {"compare"}),
    "compare": TOP,
    "exchange": TOP - {"cli", "compare"} | {"exchange"},
    "sections": TOP - {"cli", "compare"},
    "cli": TOP | {"exchange", "sections"},
    "stages": TOP | {"stages", "sections"},
}
SOURCES = sorted([*(ROOT / "tinylm").rglob("*.py"), *(ROOT / "stages").rglob("*.py")])


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def unit(module: str) -> str:
    """tinylm.text.tokens.words -> text; stages.train -> stages"""
    parts = module.split(".")
    return parts[1] if parts[0] == "tinylm" and len(parts) > 1 else parts[0]


def imports(node: ast.AST, lazy: bool = True) -> set[str]:
    """Names of all imported modules; lazy: those inside functions as well."""
    found: set[str] = set()
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            found |= {alias.name for alias in child.names}
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "relative import"
            found |= {child.module or ""} | {f"{child.module}.{alias.name}" for alias in child.names}
        elif lazy or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            found |= imports(child, lazy)
    return found


TREES = {module_name(path): ast.parse(path.read_text("utf-8"), str(path)) for path in SOURCES}


def tops(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


def at_start(module: str, seen: set[str] | None = None) -> set[str]:
    """Everything imported as soon as the module is, through modules of ours as well."""
    seen = set() if seen is None else seen
    for name in imports(TREES[module], lazy=False):
        if name not in seen:
            seen.add(name)
            if name in TREES:
                at_start(name, seen)
    return seen


def test_the_package_is_there():
    assert {"tinylm.base.config", "tinylm.model.lm", "tinylm.training.loop", "stages"} <= set(TREES)


@pytest.mark.parametrize("module", TREES)
def test_imports_go_downwards(module):
    ours = {name for name in imports(TREES[module]) if name.startswith(("tinylm.", "stages."))}
    units = {unit(name) for name in ours}
    if module == "tinylm":
        assert not units
        return
    assert unit(module) in MAY_IMPORT, f"{module}: a unit that the design does not know"
    assert units <= MAY_IMPORT[unit(module)]


@pytest.mark.parametrize("module", [name for name in TREES if name.startswith("tinylm")])
def test_the_core_knows_neither_dvc_nor_the_stages(module):
    known = tops(imports(TREES[module])) & {"dvc", "dvclive", "stages"}
    assert known == ({"dvc"} if module == "tinylm.compare.revisions" else set())


def test_dvc_is_imported_when_a_revision_is_read():
    assert "dvc" not in tops(imports(TREES["tinylm.compare.revisions"], lazy=False))


@pytest.mark.parametrize("module", [m for m in TREES if unit(m) == "compare"])
def test_comparing_does_without_torch_and_the_slow_libraries(module):
    assert not tops(at_start(module)) & {"torch", "datasets", "evaluate"}


@pytest.mark.parametrize("module", [m for m in TREES if unit(m) == "text" and m != "tinylm.text.batches"])
def test_text_does_without_torch(module):
    assert "torch" not in tops(imports(TREES[module]))
    assert "torch" not in tops(at_start(module))


@pytest.mark.parametrize("module", [m for m in TREES if unit(m) == "reporting"])
def test_reporting_does_without_torch(module):
    assert "torch" not in tops(imports(TREES[module]))
    assert "torch" not in tops(at_start(module))


@pytest.mark.parametrize("module", [m for m in TREES if unit(m) in GROUND | {"cli"}])
def test_heavy_libraries_are_imported_only_where_they_are_used(module):
    heavy = {"torch", "datasets", "evaluate", "matplotlib", "fasttext", "pandas", "tokenizers", "sacrebleu"}
    assert not tops(imports(TREES[module], lazy=False)) & heavy


@pytest.mark.parametrize("path", [p for p in SOURCES if p.name == "__init__.py"], ids=module_name)
def test_init_files_are_empty(path):
    if module_name(path) not in ("tinylm.cli", "stages"):  # the entry points' names
        assert path.read_text("utf-8") == ""


def test_every_folder_of_code_is_a_package():
    assert all((path.parent / "__init__.py").exists() for path in SOURCES)


@pytest.mark.parametrize(
    ("source", "lazy", "eager"),
    [
        ("import torch.nn as nn", {"torch.nn"}, {"torch.nn"}),
        ("def f():\n    from tinylm import files", {"tinylm", "tinylm.base.files"}, set()),
        ("class A:\n    import os", {"os"}, {"os"}),
        ("try:\n    import os\nexcept ImportError:\n    import re", {"os", "re"}, {"os", "re"}),
    ],
)
def test_the_reader_of_imports_sees_them(source, lazy, eager):
    assert imports(ast.parse(source)) == lazy
    assert imports(ast.parse(source), lazy=False) == eager
