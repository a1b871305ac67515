"""Blocks as Markdown: what data says is shown as it stands, whatever it holds."""

import html
import random
import re

import pytest
from markdown_it import MarkdownIt

from tinylm.exchange.markdown import escape, to_markdown
from tinylm.report.blocks import (
    Maps,
    Quotes,
    Shaded,
    bullets,
    facts,
    fold,
    gallery,
    heading,
    joined,
    paragraph,
    picture,
    table,
)

NASTY = [
    "a *b* **c** _d_ __e__ `f` ~~g~~",
    "[x](http://example.org) ![y](z.png) <b>bold</b> <script>alert(1)</script>",
    "a | b || c",
    "# no heading",
    "- no list",
    "+ no list",
    "1. no list",
    "12) no list",
    "> no quote",
    "===",
    "---",
    "&amp; &lt; AT&T & co",
    "back\\slash \\* \\",
    "$x$ and $$y$$",
    "held_out_loss <unk> <eos>",
    "```\nfence",
    "a  \nline break",
]


def rendered(markdown: str) -> str:
    return (
        MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(markdown)
    )


def words_of(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


@pytest.mark.parametrize("text", NASTY)
def test_a_paragraph_shows_its_text(text):
    page = rendered(escape(text))
    assert re.findall(r"<(\w+)", page) == ["p"]
    assert words_of(page) == " ".join(text.split())


@pytest.mark.parametrize("text", NASTY)
def test_a_cell_shows_its_text(text):
    page = rendered(to_markdown(table(text, ["a", text], [[text, "1"], ["x", text]]), {}))
    cells = [words_of(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", page, re.DOTALL)]
    shown = " ".join(text.split())
    assert cells == ["a", shown, shown, "1", "x", shown]
    assert set(re.findall(r"<(\w+)", page)) == {
        "p",
        "strong",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
    }


def test_any_text_is_shown_as_it_stands():
    draw = random.Random(1)
    letters = "ab1 \\`*_[]()<>#|~$&!-+=.:/\"'{}^@é"
    for _ in range(400):
        text = "x" + "".join(draw.choice(letters) for _ in range(draw.randrange(1, 25))) + "x"
        page = rendered(escape(text))
        assert words_of(page) == " ".join(text.split()), text
        assert re.findall(r"<(\w+)", page) == ["p"], text


def test_control_characters_are_spelt_out():
    assert "\x1b" not in escape("a\x1b[31m")
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in escape("a\N{RIGHT-TO-LEFT OVERRIDE}b")


def test_every_block():
    blocks = joined(
        [
            heading("Head"),
            paragraph("One.", "Two."),
            bullets(["first", "- second"]),
            facts([("parameters", "1,204")]),
            gallery(picture("loss", "what it shows"), picture("undrawn", "nothing")),
            fold("more", paragraph("behind")),
            [
                Quotes([("after 5 tokens", "two\n\nlines")]),
                Shaded("a", [("b", 0.5)]),
                Maps(["a"], []),
            ],
        ]
    )
    page = rendered(to_markdown(blocks, {"loss": ("pictures/loss.png", "loss from 8 to 1")}))
    assert "<h3>Head</h3>" in page
    assert "<p>One. Two.</p>" in page
    assert [words_of(item) for item in re.findall(r"<li>(.*?)</li>", page)] == ["first", "- second"]
    assert "<td>1,204</td>" in page
    assert '<img src="pictures/loss.png" alt="loss from 8 to 1"' in page
    assert "nothing" not in page
    assert re.search(r"<details><summary>more</summary>\s*<p>behind</p>\s*</details>", page)
    assert re.search(r"<blockquote>\s*<p>two<br />\s*lines</p>", page)


def test_nothing_gives_nothing():
    assert (
        to_markdown(
            [Shaded("a", []), *picture("undrawn", "x"), *gallery(picture("undrawn", "x"))], {}
        )
        == ""
    )
