"""The same comparison on the page, in the terminal and as JSON; and the command."""

import contextlib
import html
import json
import re

import pytest

from tinylm.cli.command import main
from tinylm.compare.comparison import compare
from tinylm.compare.page import to_markdown
from tinylm.report.html_page import to_html
from tinylm.report.render import to_terminal


@pytest.fixture
def pair(make_run):
    first = make_run("main", continuation="")
    return compare([first, make_run("warm-newt", {"train.lr": 0.01}, shift=-0.1)])


def plain(page):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_the_page_and_the_terminal_have_parameters_metrics_verdicts_and_stories(pair):
    source = to_html(to_markdown(pair))
    assert not re.search(r"<script|(?:src|href)=\"(?!#|data:)", source)  # it loads nothing
    page = plain(source)
    terminal = " ".join(to_terminal(to_markdown(pair), 200).split())
    difference = pair.against[0].findings[0].difference
    values = f"{difference.first:.3f} → {difference.second:.3f}"
    for text in ("train.lr", values, "40 stories", "10 prompts", "(it ends there)"):
        assert text in page
        assert text in terminal
    assert pair.against[0].findings[0].sentence in page


# the command


@pytest.fixture
def asked(monkeypatch, revision, tmp_path):
    """The arguments of DVC's stand-in: a, b with another learning rate, and one experiment."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text("train: {}\n")
    by_name = {
        "a": revision("a"),
        "b": revision("b", **{"params.yaml": "train:\n  lr: 1e-2\n  seed: 1\n"}),
    }
    calls = []

    @contextlib.contextmanager
    def opened(names, experiments=False):
        calls.append((list(names), experiments))
        more = [by_name["b"]] if experiments else []
        yield [by_name.get(name, by_name["a"]) for name in names] + more

    monkeypatch.setattr("tinylm.compare.revisions.opened", opened)
    return calls


def test_two_revisions_as_text_a_page_and_json(asked, capsys, tmp_path):
    assert main(["compare", "a", "b", "--json", "out/a.json", "--html", "out/page.html"]) == 0
    assert asked == [(["a", "b"], False)]
    assert "train.lr" in capsys.readouterr().out
    parameters = json.loads((tmp_path / "out/a.json").read_text())["parameters"]
    assert parameters == {"train.lr": {"a": 0.003, "b": 0.01}}
    assert "b compared with a" in (tmp_path / "out/page.html").read_text()


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ([], "fewer than two"),
        (["a", "b", "a"], "'a'"),
        (["a", "b", "--json", "params.yaml"], "--json params.yaml"),
        (["--effect", "0"], "--effect: 0"),
        (["--effect", "nan"], "--effect: nan"),
        (["--effect", "1", "--power", "1"], "--power: 1"),
        (["--effect", "1", "--power", "0.1"], "--power: 0.1"),
        (["--effect", "1", "--comparisons", "0"], "--comparisons: 0"),
        (["a", "--effect", "1"], "no spread between seeds"),
    ],
)
def test_a_wrong_request_is_one_line(asked, capsys, tmp_path, words, key):
    assert main(["compare", *words]) == 2
    error = capsys.readouterr().err
    assert key in error
    assert error.count("\n") == 1
    assert (tmp_path / "params.yaml").read_text() == "train: {}\n"
