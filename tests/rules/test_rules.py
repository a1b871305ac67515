"""Each rule over the source files lists all offenders."""

import ast
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

FINISHED = [
    "import torch\nclass A(torch.nn.TransformerEncoderLayer): pass",
    "from torch.nn import functional as F\nF.cross_entropy(a, b)",
    "import torch.nn.functional as g\ng.scaled_dot_product_attention(q, k, v)",
    "from torch.optim import AdamW",
    "import torch.optim",
    "from torch.utils.checkpoint import checkpoint",
    "from torch.utils import checkpoint",
    "from torch import nn\nnn.utils.clip_grad_norm_(p, 1)",
]
WRITES = """\
open(p, mode='ab'); open(p, 'r+'); open(p, mode); p.open('w'); gzip.open(p, 'wt'); p.write_text('x'); frame.to_csv(p)
os.replace(a, b); np.memmap(p, np.uint16, 'w+'); torch.save(model, p); np.save(p, array); shutil.copy(a, b)
archive.extractall(p); model.save_pretrained(p); safetensors.torch.save_file({}, p); save_model(m, p)
with tempfile() as f: figure.savefig(f)
with atomic_folder(p) as new: (new / 'a').write_text('x')
"""
WRITES_NOTHING = """\
from tinylm.base.files import write_bytes
from tinylm.model.checkpoint import save_model
open(p); open(p, 'rb'); p.open(); text.replace('a', 'b'); print(frame.to_csv(index=False))
with atomic_path(p) as t: figure.savefig(t)
with files.atomic_path(p) as t, open(t, 'wb') as f: f.write(b'')
target = io.BytesIO(); figure.savefig(target)
os.open(os.devnull, os.O_WRONLY); write_bytes(p, safetensors.torch.save(tensors)); save_model('models', m)
"""


@pytest.mark.parametrize("rule", RULES)
def test_every_source_file_keeps(rule):
    assert RULES[rule](SOURCES) == []


def test_no_room_may_import_one_further_down():
    assert imports.upwards(TABLE) == []


@pytest.mark.parametrize(
    ("source", "lazy", "eager"),
    [
        ("import torch.nn as nn", {"torch.nn"}, {"torch.nn"}),
        ("def f():\n    from tinylm import files", {"tinylm", "tinylm.files"}, set()),
        ("class A:\n    import os", {"os"}, {"os"}),
        ("try:\n    import os\nexcept ImportError:\n    import re", {"os", "re"}, {"os", "re"}),
    ],
)
def test_the_reader_of_imports_sees_them(source, lazy, eager):
    assert imports.modules_of({"a.py": source}) == {"a": lazy}
    assert imports.modules_of({"a.py": source}, lazy=False) == {"a": eager}


def test_finished_parts_are_seen_under_any_name():
    for source in FINISHED:
        assert calls.finished_parts(source), source


def test_nothing_but_files_py_writes():
    assert calls.writes_past_files_py(SOURCES) == []
    assert len(calls.bare_writes(WRITES)) == len(ast.parse(WRITES).body)
    assert calls.bare_writes(WRITES_NOTHING) == []
    assert calls.writes_past_files_py({"stages/train.py": "\nopen(p, 'w')"}) == [
        "stages/train.py, line 2: open"
    ]


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
