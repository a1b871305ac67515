"""The code that a stage's result depends on, summed into one SHA-256; and seeds."""

import random

import numpy as np
import pytest
import torch

from tinylm.base import code
from tinylm.base.seeding import derive_seed, seed_everything

PIPELINE = "stages: {train: {deps: [stages/train.py, tinylm/model, data/tokens]}}"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    for name in (
        "stages/train.py",
        "tinylm/model/norms.py",
        "tinylm/model/a.cpp",
        "tinylm/params/params.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "dvc.yaml").write_text(PIPELINE)
    monkeypatch.setattr(code, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("edited", "changes"),
    [
        ("stages/train.py", True),
        ("tinylm/model/norms.py", True),
        ("tinylm/model/a.cpp", True),
        ("tinylm/params/params.py", False),
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


def draws() -> list[float]:
    return [random.random(), np.random.rand(), torch.rand(1).item()]  # noqa: NPY002


def test_seeding_fixes_the_streams_of_python_numpy_and_torch():
    seed_everything(3, threads=1)
    first = draws()
    seed_everything(3, threads=1)
    assert draws() == first
    seed_everything(4, threads=1)
    assert all(one != other for one, other in zip(draws(), first, strict=True))


def test_a_derived_seed_is_the_same_on_every_machine():
    assert derive_seed(1, "batches", 0) == 8374723137405355890
    assert 0 <= derive_seed(10**30, "x") < 2**63
