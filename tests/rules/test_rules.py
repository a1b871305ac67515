"""Each rule over the source files lists all offenders; a planted violation of each is named."""

import ast
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import FULL
from tests.rules import calls, imports
from tests.support.clone import working_tree

ROOT = Path(__file__).parents[2]
SOURCES = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for folder in ("tinylm", "stages")
    for path in sorted((ROOT / folder).rglob("*.py"))
}
TABLE = imports.import_table((ROOT / "ARCHITECTURE.md").read_text("utf-8"))
ENTRY_POINTS = ("tinylm/__init__.py", "tinylm/cli/__init__.py", "stages/__init__.py")
Rule = Callable[[dict[str, str]], list[str]]


def is_too_long(sources: dict[str, str]) -> list[str]:
    limits = {path: 100 if path.startswith("stages/") else 350 for path in sources}
    return [f"{path} has {lines} lines" for path, text in sources.items() if (lines := text.count("\n")) > limits[path]]


def is_no_plain_package(sources: dict[str, str]) -> list[str]:
    """Folders without an `__init__.py`, and such files that hold something."""
    inits = {f"{path.rpartition('/')[0]}/__init__.py" for path in sources}
    return [f"{path} is missing" for path in sorted(inits - set(sources))] + [
        f"{path} is not empty" for path in sorted(inits & set(sources)) if sources[path] and path not in ENTRY_POINTS
    ]


RULES: dict[str, Rule] = {
    "imports": partial(imports.outside_the_table, table=TABLE), "dvc": imports.knows_dvc,
    "loads": imports.loads_too_much, "by hand": calls.uses_finished_parts, "length": is_too_long,
    "packages": is_no_plain_package
}  # fmt: skip
# (rule, file, its text, what the rule says of it)
PLANTED = [
    ("imports", "tinylm/model/transformer.py", "import tinylm.training.loop", "model may not import training"),
    (
        "imports",
        "tinylm/text/tokens/a.py",
        "def f():\n    from tinylm.model import transformer",
        "text may not import model",
    ),
    ("imports", "tinylm/studies/a.py", "from tinylm.cli import verify", "may not import cli"),
    (
        "imports",
        "tinylm/kernels/training/a.py",
        "from tinylm.kernels.decoding import build",
        "may not import kernels.decoding",
    ),
    ("imports", "tinylm/cli/a.py", "import stages.train", "cli may not import stages"),
    ("imports", "tinylm/model/a.py", "from . import lm", "relative"),
    ("imports", "tinylm/lonely.py", "", "in no room"),
    ("dvc", "tinylm/training/a.py", "def f():\n    import dvc.api", "imports dvc.api"),
    ("loads", "tinylm/compare/revisions.py", "import dvc.repo", "loads dvc"),
    ("loads", "tinylm/reporting/page.py", "if True:\n    import torch.nn as nn", "page loads torch"),
    ("loads", "tinylm/text/vectors/a.py", "from tinylm.text.tokens import batches", "loads torch"),
    ("loads", "tinylm/cli/arguments.py", "import tinylm.reporting.page", "loads matplotlib"),
    ("length", "stages/train.py", "\n" * 101, "stages/train.py has 101 lines"),
    ("length", "tinylm/model/transformer.py", "\n" * 351, "351"),
    ("packages", "tinylm/model/__init__.py", "from tinylm.model.transformer import TinyLM", "not empty"),
    ("packages", "tinylm/other/a.py", "", "tinylm/other/__init__.py is missing"),
    (
        "by hand",
        "tinylm/model/transformer.py",
        "from torch import nn\nnn.LayerNorm(3)",
        "transformer.py uses torch.nn.LayerNorm",
    ),
]

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


@pytest.mark.parametrize(("rule", "path", "text", "said"), PLANTED)
def test_a_planted_violation_is_named(rule, path, text, said):
    offenders = RULES[rule](SOURCES | {path: text})
    assert any(said in offender for offender in offenders), offenders


def test_no_room_may_import_one_further_down():
    assert imports.upwards(TABLE) == []
    assert imports.upwards({"a": set(), "b": {"a", "c"}, "c": {"b"}}) == [
        "b may import c, which does not come before it"
    ]


def test_the_table_of_imports_is_no_wider_than_what_is_imported():
    wider = TABLE | {"base": {"host"}, "nowhere": set()}
    said = imports.outside_the_table(SOURCES, wider)
    assert said[-2:] == ["nowhere has no module", "base imports nothing of host"]


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
    assert calls.writes_past_files_py({"stages/train.py": "\nopen(p, 'w')"}) == ["stages/train.py, line 2: open"]


def test_a_commit_of_everything_holds_no_large_file():
    assert [name for name in working_tree(ROOT) if (ROOT / name).stat().st_size > 512 << 10] == []


def test_what_is_left_to_test_all_exists():
    for name in FULL:
        path, _, function = name.partition("::")
        assert (ROOT / "tests" / path).exists(), name
        assert not function or f"def {function}(" in (ROOT / "tests" / path).read_text("utf-8"), name
