"""The paper: every section once, nothing cut off, text escaped, the same bytes twice, whole where files are missing."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from reportlab.platypus import CondPageBreak, Paragraph, Spacer

from tinylm.reporting import blocks
from tinylm.reporting.paper import CHAPTERS, build_paper
from tinylm.reporting.paper_blocks import Setter, kept_together, leading
from tinylm.reporting.paper_maps import map_rows
from tinylm.reporting.paper_style import STYLES, WIDTH, cell_style, text, width_of
from tinylm.reporting.paper_tables import column_widths, ruled_table
from tinylm.reporting.reference_sections import with_library
from tinylm.reporting.run_sections import subtitle
from tinylm.reporting.sections import sections, write_parts
from tinylm.reporting.settings import ReportSettings
from tinylm.reporting.sources import Run, read_run
from tinylm.reporting.writing import PAPER, PICTURES, write_report

SETTINGS = ReportSettings(title="A title & more", compare="A", samples=8)
ROOT = Path(__file__).parents[2]


def _paper(run: Run) -> bytes:
    return build_paper(write_parts(run, SETTINGS), SETTINGS.title, "", {})


def _pages(paper: bytes) -> int:
    return len(re.findall(rb"/Type /Page\b", paper))


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory, params: dict, make_run) -> tuple[Path, Run]:
    folder = tmp_path_factory.mktemp("full")
    make_run(folder)
    run = with_library(read_run(folder, params), ROOT)
    write_report(run, SETTINGS, folder)
    return folder, run


def test_paper_of_a_full_run_names_every_section_in_its_outline(full):
    paper = (full[0] / PAPER).read_bytes()
    assert paper.startswith(b"%PDF-")
    assert _pages(paper) > 8
    titles = {bytes(title).decode("latin-1") for title in re.findall(rb"/Title \((.*?)\)", paper)}
    assert "A title & more" in titles
    for title in ("1 Method", "2.1 How training went", "2.5 Continuations", "4 Discussion", "5.2 Settings"):
        assert title in titles


def test_every_section_has_one_place_in_the_paper():
    anchors = ["summary", *(anchor for _, inner in CHAPTERS for anchor in inner)]
    assert sorted(anchors) == sorted(section.anchor for section in sections(SETTINGS))


def test_pictures_are_in_the_paper(full):
    images = (full[0] / PAPER).read_bytes().count(b"/Subtype /Image")
    assert images > _paper(full[1]).count(b"/Subtype /Image") > 0  # without pictures only the maps


def test_same_run_gives_the_same_bytes(full):
    pngs = {path.stem: path.read_bytes() for path in (full[0] / PICTURES).iterdir()}
    again = build_paper(write_parts(full[1], SETTINGS), SETTINGS.title, subtitle(full[1]), pngs)
    assert again == (full[0] / PAPER).read_bytes()


def test_paper_of_no_run_at_all(tmp_path, params):
    assert _pages(_paper(read_run(tmp_path, params))) >= 2


@pytest.mark.parametrize(
    "hostile",
    [
        "<b>bold & <font size=900> </para> &amp; <img src='file:///etc/passwd'/>",
        "漢字 😀 \u202eevil\u0007 \x00 ﷽",
        "x" * 4000,
        "once upon a time " * 250,
        "",
    ],
    ids=["markup", "characters", "long word", "long text", "nothing"],
)
def test_text_from_data_never_breaks_the_paper(full, hostile):
    words = [hostile, "b"]
    rows = {
        "samples": [dict.fromkeys(("prompt", "reference", "continuation", "perplexity", "bleu", "finished"), hostile)],
        "beams": [dict.fromkeys(("prompt", "reference", "method", "text", "log_prob"), hostile)],
        "stories": [{"update": 1, "tokens": 2, "text": hostile}],
        "greedy": [{"prompt": hostile, "token": hostile, "probability": "0.5"}],
        "heads": [{"layer": "1", "head": "1", "previous": "0.5", "interpretation": hostile}],
        "roles": [{"layer": "1", "head": "1", "role": hostile, "score": "1", "baseline": "0"}],
    }
    sentence = dataclasses.replace(
        full[1].sentences()[0], words=words, maps=np.eye(2, dtype="f4")[None, None], next=hostile
    )
    run = Run({"data": {hostile: hostile}}, full[1].found | rows | {"attention": [sentence]}, {"samples": hostile})
    assert _pages(_paper(run)) > 4


def test_text_is_escaped_and_what_the_fonts_lack_is_spelt_out():
    assert text("a < b & <b>") == "a &lt; b &amp; &lt;b&gt;"
    assert text("漢\u0007é“…”") == "⟨U+6F22⟩⟨U+0007⟩é“…”"
    assert text("😀") == "⟨U+1F600⟩"


def _table(rows: int, columns: int, prose: tuple[str, ...] = ()) -> blocks.Table:
    heads = [f"h{column}" for column in range(columns)]
    return blocks.Table("caption", heads, [[f"r{row}"] * columns for row in range(rows)], prose, False)


def _words(cell) -> str:
    return cell.getPlainText() if isinstance(cell, Paragraph) else "".join(part.getPlainText() for part in cell)


def test_a_long_table_breaks_across_pages_under_its_header():
    drawn = ruled_table(_table(60, 3), WIDTH)
    drawn.wrap(WIDTH, 300)
    first, rest = drawn.split(WIDTH, 300)
    for part in (first, rest):
        assert [_words(cell) for cell in part._cellvalues[0]] == ["h0", "h1", "h2"]
    assert _words(first._cellvalues[-1][0]) != _words(rest._cellvalues[1][0])
    assert len(first._cellvalues) + len(rest._cellvalues) == 60 + 2


def test_a_row_higher_than_a_page_is_split():
    story = "once upon a time " * 900
    drawn = ruled_table(blocks.Table("c", ["a", "b"], [["x", story]], ("b",), True), WIDTH)
    drawn.wrap(WIDTH, 700)
    assert len(drawn.split(WIDTH, 700)) == 2


@pytest.mark.parametrize("columns", [1, 3, 7, 19, 31])
@pytest.mark.parametrize("cell", ["4.00", "7.00 (6.65 to 7.35)", "long words here " * 30, "x" * 300, ""])
def test_columns_fit_the_page(columns, cell):
    rows = [["short"] * (columns - 1) + [cell]] * 3
    style = cell_style(8)
    widths, quality = column_widths(rows, style, WIDTH)
    assert sum(widths) <= WIDTH + 0.01
    words = [max((width_of(word, style) for word in column[0].split()), default=0) for column in zip(*rows)]
    if quality:
        assert all(width >= min(word, 1.2 * WIDTH / columns) for width, word in zip(widths, words))
    assert quality == 2 or sum(words) + columns * 7 > WIDTH or cell not in ("4.00", "")


@pytest.mark.parametrize(("tokens", "maps"), [(1, 1), (2, 3), (24, 4), (24, 8), (64, 2), (64, 5)])
def test_maps_fit_the_page_and_none_is_left_out(tokens, maps):
    panels = [(f"layer 1, head {number}", np.eye(tokens)) for number in range(maps)]
    rows = map_rows(blocks.Maps(["fourteenletter"] * tokens, panels), WIDTH)
    assert all(row.width <= WIDTH + 0.01 and row.height < 700 for row in rows)
    assert all(row._cell >= 4 or len(row._panels) == 1 for row in rows)  # points: smaller is not seen
    assert sum(len(row._panels) for row in rows) == maps


def test_a_heading_stays_with_what_follows():
    heading = leading(Paragraph("heading", STYLES["heading"]))
    body = Paragraph("words", STYLES["body"])
    found = kept_together([Spacer(0, 5), heading, body, body])
    assert [type(flowable) for flowable in found] == [Spacer, CondPageBreak, Paragraph, Paragraph, Paragraph]
    assert found[1].height >= heading.wrap(WIDTH, 700)[1] + body.wrap(WIDTH, 700)[1]


def test_figures_and_tables_are_numbered_in_order_and_folds_may_stay_off_paper():
    setter = Setter({})
    table = blocks.table("what", ["a"], [["1"]])
    hidden = blocks.fold("more", blocks.table("hidden", ["a"], [["1"]]), on_paper=False)
    story = setter.set(table + hidden + blocks.gallery(table, table) + table)
    captions = [flowable.getPlainText() for flowable in story if getattr(flowable, "style", None) == STYLES["caption"]]
    assert captions == ["Table 1. what", "Table 4. what"]
