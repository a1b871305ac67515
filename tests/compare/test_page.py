"""The same comparison on the page and in the terminal; and the command."""

import contextlib
import html
import re

import pytest

from tinylm.cli.command import main
from tinylm.compare.comparison import compare
from tinylm.compare.page import to_markdown
from tinylm.report.html_page import to_html
from tinylm.report.render import to_terminal


def test_the_page_and_the_terminal_have_the_same_table(make_run):
    second = make_run("warm-newt", {"train.lr": 0.01}, shift=-0.1)
    third = make_run("other-text", texts=["a", "b"])
    comparison = compare([make_run("main"), second, third])
    source = to_html(to_markdown(comparison))
    assert not re.search(r"<script|(?:src|href)=\"(?!#|data:)", source)  # it loads nothing
    page = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", source)).split())
    terminal = " ".join(to_terminal(to_markdown(comparison), 200).split())
    for text in (page, terminal):
        for expected in ("train.lr 0.003 → 0.01", f"{second.perplexity:.4f}", "40 texts"):
            assert expected in text
        assert comparison.rows[0].verdict in text


# the command


@pytest.fixture
def asked(monkeypatch, revision, lock, tmp_path):
    """The arguments of DVC's stand-in: a, b with another learning rate, and one experiment."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text("train: {}\n")
    lock["train"]["params"]["params.yaml"]["train"]["lr"] = 0.01
    by_name = {"a": revision("a"), "b": revision("b", lock)}
    calls = []

    @contextlib.contextmanager
    def opened(names, experiments=False):
        calls.append((list(names), experiments))
        more = [by_name["b"]] if experiments else []
        yield [by_name.get(name, by_name["a"]) for name in names] + more

    monkeypatch.setattr("tinylm.compare.revisions.opened", opened)
    return calls


def test_two_revisions_as_text_and_a_page(asked, capsys, tmp_path):
    assert main(["compare", "a", "b", "--html", "out/page.html"]) == 0
    assert asked == [(["a", "b"], False)]
    assert "train.lr 0.003 → 0.01" in " ".join(capsys.readouterr().out.split())
    assert "Comparison with a" in (tmp_path / "out/page.html").read_text()


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ([], "two or more revisions"),
        (["a", "b", "a"], "'a'"),
        (["--effect", "0"], "--effect"),
        (["--effect", "1", "--comparisons", "0"], "--comparisons"),
        (["a", "--effect", "1"], "seeds"),
    ],
)
def test_a_wrong_request_is_one_line(asked, capsys, tmp_path, words, key):
    assert main(["compare", *words]) == 2
    error = capsys.readouterr().err
    assert key in error
    assert error.count("\n") == 1
    assert (tmp_path / "params.yaml").read_text() == "train: {}\n"
