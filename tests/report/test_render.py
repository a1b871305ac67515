"""One template gives Markdown, a page, a PDF and text for a terminal; inserted text is never markup."""

import re
import shutil
import subprocess

import jinja2
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as drawn
from hypothesis import strategies as st
from markupsafe import Markup
from matplotlib.figure import Figure

from tinylm.report.drawing import Picture, to_svg
from tinylm.report.html_page import LARGE_FACTS, to_html
from tinylm.report.pdf import MOST_SHOWN, _with_warning, missing_characters, to_pdf
from tinylm.report.render import escape, facts, render, to_terminal
from tinylm.report.wording import isolated

EVIL = (
    "<script>alert(1)</script> [x](javascript:a) ![i](http://a/b.png) `c` **b** _i_ a_b &lt; &amp; "
    '#let x = 1; $y$ "q" \\ | \u202e ~~s~~'
)
MARKED = Markup("right **wrong**")
SHOWN = EVIL.replace("\u202e", "⟨U+202E⟩")
TEMPLATE = """# {{ title }}

By {{ author }}

## First

Text {{ evil }}, at 7 %, from `7 %`.

**Warning:** {{ "a.json" }} is missing.

{{ table(("name", "value", "what"), rows, "A caption") }}

{{ facts([("perplexity", "3.2"), ("absent", none)]) }}

{{ quote(evil) }}

{{ image("../plots/p.png", "alt text", 'its "caption"') }}

{{ quote(marked) }}

#### Extras

More.

## Last
"""


@pytest.fixture
def markdown(tmp_path):
    (tmp_path / "page.md.j2").write_text(TEMPLATE)
    rows = [["a|b", 1, EVIL], ["*c*", 2.5, "two\nlines"]]
    return render(
        tmp_path / "page.md.j2", title="A # title", author="me", evil=EVIL, rows=rows, marked=MARKED
    )


TABLE = "| a | b |\n|---|---|\n" + "| cell | 1 |\n" * 4
WHOLE = [  # what no page separates: from First to Last
    f"### First\n\nLead.\n\n*Caption*\n\n{TABLE}\n*Last.*\n",
    "First.\n\n*Last.*\n\n## Next\n\nText.\n",
    "- First\n- second\n- Last\n",
]


def test_what_is_folded_ends_at_the_next_heading_and_a_bold_word_in_a_quote_is_marked(markdown):
    page = to_html(markdown)
    assert "at 7\N{NO-BREAK SPACE}%, from <code>7 %</code>" in page  # code may be copied
    assert "<details><summary>Extras</summary><p>More.</p>\n</details></section>" in page
    assert page.count("<mark>") == 1
    assert "right <mark>wrong</mark>" in page
    assert '<a href="#last">' in page


def unescaped(text):
    for entity, character in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
        text = text.replace(entity, character)
    return text


def test_text_of_models_is_shown_on_the_page_as_it_is_and_loads_nothing(markdown):
    page = to_html(markdown, {"p": "<svg></svg>"})
    assert unescaped(page).count(SHOWN) == 3
    body = page[page.index("<body>") :]
    assert "<script" not in body
    assert "<img" not in body
    assert not re.search(r"(src|href)=\"(?!#)", body)


NUMBERED = st.builds("{}{}".format, st.integers(0, 10**11), st.sampled_from([".", ")", ""]))


@drawn(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    start=NUMBERED | st.sampled_from(["#", "-", "+", ">", "    ", "===", "---"]),
    rest=st.sampled_from(["", " a", "a"]),
)
def test_no_text_begins_another_block(start, rest, tmp_path):
    (tmp_path / "page.md.j2").write_text("# Title\n\n{{ text }}\n")
    text = start + rest
    page = to_html(render(tmp_path / "page.md.j2", text=text))
    assert not text.strip() or f"<p>{text.strip()}</p>" in unescaped(page)


def test_numbers_stay_readable_in_the_markdown():
    assert escape("2.5") == "2.5"
    assert escape("raw_bits") == "raw_bits"
    assert escape(None) == "–"


def test_a_picture_that_was_not_drawn_is_left_out(markdown):
    assert "<figure>" not in to_html(markdown)
    assert "<figcaption>its &quot;caption&quot;</figcaption>" in to_html(
        markdown, {"p": "<svg></svg>"}
    )


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="needs poppler-utils")
def test_the_pdf_has_every_text_and_the_same_bytes_each_time(markdown, tmp_path):
    svg = to_svg(Picture(Figure(figsize=(2, 1)), ""))
    pdf = to_pdf(markdown, {"p": svg})
    assert pdf == to_pdf(markdown, {"p": svg})
    (tmp_path / "a.pdf").write_bytes(pdf)
    command = ["pdftotext", "-raw", tmp_path / "a.pdf", "-"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    words = re.sub(r"\s+", "", text)
    assert re.sub(r"\s+", "", SHOWN) in words
    for part in ("A # title", "A caption", "perplexity", "Extras"):
        assert part.replace(" ", "") in words


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="needs poppler-utils")
def test_large_facts_have_no_gaps_between_words(tmp_path):
    pairs = [("perplexity of the generator of stories", n) for n in range(LARGE_FACTS)]
    (tmp_path / "a.pdf").write_bytes(to_pdf(f"# T\n\n{facts(pairs)}\n"))
    command = ["pdftotext", "-bbox", tmp_path / "a.pdf", "-"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    end = re.search(r'xMax="([\d.]+)"[^>]*>perplexity<', text)
    start = re.search(r'xMin="([\d.]+)"[^>]*>of<', text)
    assert 0 < float(start[1]) - float(end[1]) < 4  # points


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="needs poppler-utils")
@pytest.mark.parametrize("lines", range(36, 46))
@pytest.mark.parametrize("whole", WHOLE)
def test_no_page_ends_between_a_text_its_table_and_its_note_or_in_a_list(lines, whole, tmp_path):
    """However many lines stand before them on the first page."""
    filler = "Filler.\n\n" * lines
    (tmp_path / "a.pdf").write_bytes(to_pdf(f"# T\n\n## S\n\n{filler}{whole}"))
    command = ["pdftotext", "-raw", tmp_path / "a.pdf", "-"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (page,) = [page for page in text.split("\f") if "First" in page]
    assert "Last" in page


def test_the_pdf_names_the_characters_that_its_fonts_lack():
    assert missing_characters("Zoë, Ωμέγα, Борис – محمد\n") == ""
    assert missing_characters("王李王") == "李王"
    title, _, warning, *rest = _with_warning("# 王\n\ntext\n").split("\n")
    assert (title, rest[-2:]) == ("# 王", ["text", ""])
    assert "lack U+738B. " in warning  # the character itself would be a box
    many = _with_warning("".join(map(chr, range(0x4E00, 0x4E00 + MOST_SHOWN + 5))) + "\n")
    assert "and 5 more" in many
    assert len(to_pdf("# 王\n\ntext\n")) > len(to_pdf("# a\n\ntext\n"))


def test_a_name_from_right_to_left_leaves_the_order_of_what_follows():
    """U+2068 and U+2069 isolate it (Unicode's bidirectional algorithm, UAX 9)."""
    for name in ("Ada Lovelace", "Зоя", "王", ""):
        assert isolated(name) == name
    for name in ("\u0645\u062d\u0645\u062f", "Ada \u05d3\u05d5\u05d3"):
        assert isolated(name) == f"\u2068{name}\u2069"


def test_the_terminal_gets_tables_and_plain_text(markdown):
    text = to_terminal(markdown, width=300)
    assert SHOWN in text
    assert "A caption" in text
    assert "at 7 %" in text
    assert "\x1b" not in text


def test_a_value_that_is_missing_is_an_error(tmp_path):
    (tmp_path / "page.md.j2").write_text("{{ nothing }}")
    with pytest.raises(jinja2.UndefinedError):
        render(tmp_path / "page.md.j2")
