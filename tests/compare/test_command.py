import contextlib
import json

import pytest

from tinylm.cli.command import main


@pytest.fixture
def revisions(monkeypatch, revision):
    """What DVC would open: a, b with another learning rate, and one experiment."""
    found = {
        "a": revision("a"),
        "b": revision("b", **{"params.yaml": "train:\n  lr: 1e-2\n  seed: 1\n"}),
    }
    asked = []

    @contextlib.contextmanager
    def opened(names, experiments=False):
        asked.append((list(names), experiments))
        yield [found.get(name, found["a"]) for name in names] + (
            [found["b"]] if experiments and asked[0] else []
        )

    monkeypatch.setattr("tinylm.compare.revisions.opened", opened)
    return asked


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_two_revisions_as_a_table_a_page_and_json(revisions, capsys, folder):
    assert main(["compare", "a", "b", "--json", "out/found.json", "--html", "out/page.html"]) == 0
    assert revisions == [(["a", "b"], False)]
    text = capsys.readouterr().out
    assert "train.lr" in text
    assert json.loads((folder / "out/found.json").read_text())["parameters"] == {
        "train.lr": {"a": 0.003, "b": 0.01}
    }
    assert "<h1>b against a</h1>" in (folder / "out/page.html").read_text()


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (["--json", "params.yaml"], "--json params.yaml belongs to the pipeline"),
        (["--html", "."], "--html . is a folder"),
        (["--json", "a", "--html", "./a"], "--json and --html are both a; allowed: two files"),
    ],
)
def test_files_are_refused_before_anything_is_compared(revisions, capsys, folder, files, told):
    (folder / "params.yaml").write_text("train: {}\n")
    assert main(["compare", "a", "b", *files]) == 2
    assert told in capsys.readouterr().err
    assert not revisions
    assert (folder / "params.yaml").read_text() == "train: {}\n"


@pytest.mark.parametrize(
    ("words", "expected"), [(["--all"], (["HEAD"], True)), (["a", "--all"], (["a"], True))]
)
def test_all_experiments_against_the_current_commit_or_another(revisions, words, expected):
    assert main(["compare", *words]) == 0
    assert revisions == [expected]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "fewer than two revisions"),
        (["a"], "fewer than two revisions"),
        (["a", "b", "a"], "revision 'a' is named twice; allowed: each once"),
    ],
)
def test_what_cannot_be_compared_is_one_line(revisions, capsys, words, told):
    assert main(["compare", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert told in error
    assert error.count("\n") == 1
    assert revisions == []


def test_a_commit_without_experiments_is_told(monkeypatch, revision, capsys):
    monkeypatch.setattr(
        "tinylm.compare.revisions.opened",
        lambda *_, **__: contextlib.nullcontext([revision("HEAD")]),
    )
    assert main(["compare", "--all"]) == 2
    assert "HEAD has no finished experiment" in capsys.readouterr().err
