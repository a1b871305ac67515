"""The code that a stage's result depends on: found by its imports, named by folders, summed into one SHA-256."""

import pytest

from tinylm.base import closure

FILES = {
    "stages/train.py": "import tinylm.model.lm\nfrom tinylm.host import command\nfrom tinylm.bench.beam import f",
    "stages/report.py": "from tinylm.vocab import words, bytes",
    "tinylm/model/lm.py": "def f():\n    from tinylm.kernels import library\nfrom tinylm.host import params",
    "tinylm/model/norms.py": "",
    "tinylm/model/losses.py": "",
    "tinylm/kernels/library.py": "FLAGS = ['-O3', '-march=native']",
    "tinylm/kernels/loss.cpp": "float loss();",
    "tinylm/kernels/.hidden": "",
    "tinylm/bench/beam.py": "import torch, tinylm.missing",
    "tinylm/bench/kv.py": "",
    "tinylm/host/command.py": "import tinylm.vocab.words",
    "tinylm/host/params.py": "",
    "tinylm/vocab/words.py": "",
    "tinylm/vocab/bytes.py": "",
    "tinylm/vocab/table.yaml": "",
    "tinylm/vocab/__init__.py": "",
    "tinylm/vocab/batches.py": "",
}


@pytest.fixture(autouse=True)
def tree(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(closure, "ROOT", tmp_path)
    closure.imported.cache_clear()
    yield tmp_path
    closure.imported.cache_clear()


def test_a_script_needs_what_it_imports_anywhere_and_the_data_beside_it():
    needed = [
        "tinylm/bench/beam.py",
        "tinylm/kernels/library.py",
        "tinylm/kernels/loss.cpp",
        "tinylm/model/lm.py",
    ]
    assert closure.closure("stages/train.py") == ["stages/train.py", *needed]
    report = closure.closure("stages/report.py")
    assert report[1:] == [f"tinylm/vocab/{name}" for name in ("bytes.py", "table.yaml", "words.py")]


def test_a_folder_is_named_where_a_third_of_it_is_needed_and_by_file_where_each_serves_its_own():
    train = ["stages/train.py", "tinylm/bench/beam.py", "tinylm/kernels", "tinylm/model"]
    assert closure.stage_code("stages/train.py") == train
    assert closure.stage_code("stages/report.py") == ["stages/report.py", "tinylm/vocab"]
    (closure.ROOT / "tinylm/bench/kv.py").unlink()
    assert "tinylm/bench" in closure.stage_code("stages/train.py")
    (closure.ROOT / "tinylm/model/positions.py").write_text("")
    assert "tinylm/model/lm.py" in closure.stage_code("stages/train.py")


@pytest.mark.parametrize(
    ("edited", "changes"),
    [
        ("stages/train.py", True),
        ("tinylm/kernels/library.py", True),  # the compiler's flags decide how numbers are rounded
        ("tinylm/kernels/loss.cpp", True),
        ("tinylm/model/norms.py", True),  # not imported, but of a folder that is named whole
        ("tinylm/bench/kv.py", False),
        ("tinylm/host/command.py", False),
        ("tinylm/host/params.py", False),
        ("tinylm/vocab/words.py", False),
        ("stages/report.py", False),
    ],
)
def test_the_sum_changes_with_what_decides_the_result(edited, changes):
    before = closure.code_sha256("stages/train.py")
    path = closure.ROOT / edited
    path.write_text(path.read_text() + "\n# edited")
    assert (closure.code_sha256("stages/train.py") != before) == changes


def test_the_sum_is_of_names_too_and_of_all_scripts():
    one = closure.code_sha256("stages/train.py")
    assert one != closure.code_sha256("stages/train.py", "stages/report.py")
    (closure.ROOT / "tinylm/model/norms.py").rename(closure.ROOT / "tinylm/model/scaling.py")
    assert one != closure.code_sha256("stages/train.py")


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """tinylm/leaf (6 files), tinylm/tree (10 files, two of them in a folder below), tinylm/bench (3 files)."""
    for name in (
        *(f"leaf/{i}.py" for i in range(6)),
        *(f"tree/{i}.py" for i in range(8)),
        *("tree/below/a.py", "tree/below/b.py", "tree/__init__.py"),
        *(f"bench/{i}.py" for i in range(3)),
    ):
        path = tmp_path / "empty" / "tinylm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    monkeypatch.setattr(closure, "ROOT", tmp_path / "empty")


def files(folder: str, *names: object) -> list[str]:
    return [f"tinylm/{folder}/{name}.py" for name in names]


@pytest.mark.parametrize(
    ("needed", "named"),
    [
        (files("leaf", 0), files("leaf", 0)),
        (files("leaf", 0, 1), ["tinylm/leaf"]),  # a third
        (
            files("tree", *range(7), "below/a"),
            [*files("tree", *range(7)), "tinylm/tree/below"],
        ),  # eight of ten
        (files("tree", *range(7), "below/a", "below/b"), ["tinylm/tree"]),  # nine of ten
        (files("bench", 0, 1), files("bench", 0, 1)),
        (files("bench", 0, 1, 2), ["tinylm/bench"]),
    ],
)
def test_a_folder_is_named_where_much_of_it_is_needed(folders, needed, named):
    assert sorted(closure.rooms(needed)) == sorted(named)
