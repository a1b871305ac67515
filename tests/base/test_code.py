"""The code that a stage's result depends on: listed in dvc.yaml, summed into one SHA-256."""

import pytest

from tests.support import closure
from tinylm.base import code

FILES = {
    "stages/train.py": "import tinylm.model.lm\nfrom tinylm.host import command",
    "tinylm/model/lm.py": "def f():\n    from tinylm.kernels import library, train",
    "tinylm/model/norms.py": "",
    "tinylm/kernels/library.py": "",
    "tinylm/kernels/train/loss.cpp": "",
    "tinylm/kernels/train/loss.py": "",
    "tinylm/bench/beam.py": "",
    "tinylm/host/command.py": "import tinylm.vocab.words",
    "tinylm/vocab/words.py": "",
    "dvc.yaml": "stages: {train: {deps: [stages/train.py, tinylm/model, data/tokens]}}",
}


@pytest.fixture(autouse=True)
def tree(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(closure, "ROOT", tmp_path)
    monkeypatch.setattr(code, "ROOT", tmp_path)
    closure._imported_files.cache_clear()
    yield tmp_path
    closure._imported_files.cache_clear()


@pytest.mark.parametrize(
    ("edited", "changes"),
    [
        ("stages/train.py", True),
        ("tinylm/model/norms.py", True),
        ("tinylm/host/command.py", False),
        ("tinylm/vocab/words.py", False),
    ],
)
def test_the_sum_changes_with_the_code_that_dvc_yaml_lists(tree, edited, changes):
    before = code.code_sha256("train")
    (tree / edited).write_text("edited")
    assert (code.code_sha256("train") != before) == changes


def test_the_sum_is_of_names_too(tree):
    before = code.code_sha256("train")
    (tree / "tinylm/model/norms.py").rename(tree / "tinylm/model/scaling.py")
    assert code.code_sha256("train") != before
