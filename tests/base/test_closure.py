"""Which folders stand for their files in dvc.yaml: a share of what they hold, by their kind."""

import pytest

from tinylm.base import closure


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """tinylm/leaf (6 files), tinylm/tree (10 files, two of them in a folder below), tinylm/bench (3 files)."""
    for name in (
        *(f"leaf/{i}.py" for i in range(6)),
        *(f"tree/{i}.py" for i in range(8)),
        *("tree/below/a.py", "tree/below/b.py", "tree/__init__.py"),
        *(f"bench/{i}.py" for i in range(3)),
    ):
        path = tmp_path / "tinylm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    monkeypatch.setattr(closure, "ROOT", tmp_path)


def files(folder: str, *names: object) -> list[str]:
    return [f"tinylm/{folder}/{name}.py" for name in names]


@pytest.mark.parametrize(
    ("needed", "named"),
    [
        (files("leaf", 0), files("leaf", 0)),
        (files("leaf", 0, 1), ["tinylm/leaf"]),  # a third
        (files("tree", *range(7), "below/a"), [*files("tree", *range(7)), "tinylm/tree/below"]),  # eight of ten
        (files("tree", *range(7), "below/a", "below/b"), ["tinylm/tree"]),  # nine of ten
        (files("bench", 0, 1), files("bench", 0, 1)),
        (files("bench", 0, 1, 2), ["tinylm/bench"]),
    ],
)
def test_a_folder_is_named_where_much_of_it_is_needed(tree, needed, named):
    assert sorted(closure.rooms(needed)) == sorted(named)
