"""The paper: every section once, nothing outside the text area, the same bytes twice, whole where files are missing."""

import dataclasses
import io
import re

import numpy as np
import pytest
from PIL import Image

from tests.report.conftest import SETTINGS
from tinylm.report import blocks
from tinylm.report.blocks import Blocks
from tinylm.report.paper import CHAPTERS, build_paper, shown
from tinylm.report.run_sections import subtitle
from tinylm.report.sections import Part, sections, write_parts
from tinylm.report.sources import Run, read_run
from tinylm.report.writing import PAPER, PICTURES

MARGIN = 2 / 21  # of the width of a page


def _paper(run: Run) -> bytes:
    return build_paper(write_parts(run, SETTINGS), SETTINGS.title, "", {})


def _pages(paper: bytes) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", paper))


def _pictures(paper: bytes) -> int:
    return len(re.findall(rb"/Subtype\s*/Image\b", paper))


def _images_of(content: Blocks) -> list[np.ndarray]:
    """The pages after the contents as (height, width) brightness."""
    pages = build_paper([Part("data", "", "t", content)], "title", "", {}, form="png")
    return [np.asarray(Image.open(io.BytesIO(page)).convert("L")) for page in pages[1:]]


def _rows_in_the_text_area(content: Blocks) -> int:
    """Asserts that nothing stands in the margins; returns how many rows of pixels hold something, on all pages."""
    rows = 0
    for page in _images_of(content):
        edge = int(MARGIN * page.shape[1]) - 3
        body = page[:-edge]  # the footer stands below
        assert (page[:, :edge] > 250).all()
        assert (page[:, -edge:] > 250).all()
        assert (page[:edge] > 250).all()
        rows += int((body < 250).any(axis=1).sum())
    return rows


def test_paper_of_a_full_run_names_every_section_in_its_outline(written):
    paper = (written[0] / PAPER).read_bytes()
    assert paper.startswith(b"%PDF-")
    assert _pages(paper) > 8
    titles = {title.decode("latin-1") for title in re.findall(rb"/Title\s*\((.*?)\)", paper)}
    assert "A title & more" in titles
    for title in (
        "1 Method",
        "2.1 How training went",
        "2.5 Continuations",
        "4 Discussion",
        "5.2 Settings",
    ):
        assert title in titles


def test_every_section_has_one_place_in_the_paper():
    anchors = ["summary", *(anchor for _, inner in CHAPTERS for anchor in inner)]
    assert sorted(anchors) == sorted(section.anchor for section in sections(SETTINGS))


def test_pictures_are_in_the_paper(written):
    assert (
        _pictures((written[0] / PAPER).read_bytes()) > _pictures(_paper(written[1])) > 0
    )  # without pictures only the maps


def test_same_run_gives_the_same_bytes(written):
    pngs = {path.stem: path.read_bytes() for path in (written[0] / PICTURES).iterdir()}
    again = build_paper(
        write_parts(written[1], SETTINGS), SETTINGS.title, subtitle(written[1]), pngs
    )
    assert again == (written[0] / PAPER).read_bytes()


def test_the_paper_does_not_ask_the_clock(written, monkeypatch):
    """typst panics under a clock before 1970, and its panic is no `Exception`."""
    asked = {}
    monkeypatch.setattr("typst.compile", lambda *_, **options: asked.update(options) or b"")
    _paper(written[1])
    assert asked["timestamp"] == 0


def test_paper_of_no_run_at_all(tmp_path, params):
    assert _pages(_paper(read_run(tmp_path, params))) >= 2


@pytest.mark.parametrize(
    "hostile",
    [
        "#panic() $x$ *bold _ `raw` [ ] \\ <label> @ref // /* = - + https://x.org",
        "漢字 😀 \u202eevil\u0007 \x00 ﷽",
        "x" * 4000,
        "once upon a time " * 250,
        "",
    ],
    ids=["markup", "characters", "long word", "long text", "nothing"],
)
def test_text_from_data_never_breaks_the_paper(written, hostile):
    words = [hostile, "b"]
    rows = {
        "samples": [
            dict.fromkeys(
                ("prompt", "reference", "continuation", "perplexity", "bleu", "finished"), hostile
            )
        ],
        "beams": [dict.fromkeys(("prompt", "reference", "method", "text", "log_prob"), hostile)],
        "stories": [{"update": 1, "tokens": 2, "text": hostile}],
        "greedy": [{"prompt": hostile, "token": hostile, "probability": "0.5"}],
        "heads": [{"layer": "1", "head": "1", "previous": "0.5", "interpretation": hostile}],
        "roles": [{"layer": "1", "head": "1", "role": hostile, "score": "1", "baseline": "0"}],
    }
    sentence = dataclasses.replace(
        written[1].sentences()[0], words=words, maps=np.eye(2, dtype="f4")[None, None], next=hostile
    )
    run = Run(
        {"data": {hostile: hostile}},
        written[1].found | rows | {"attention": [sentence]},
        {"samples": hostile},
    )
    assert _pages(_paper(run)) > 4


def test_what_the_fonts_lack_is_spelt_out():
    assert shown("a < b & #c *d*") == "a < b & #c *d*"
    assert shown("漢\u0007é“…”") == "⟨U+6F22⟩⟨U+0007⟩é“…”"
    assert shown("🦊") == "⟨U+1F98A⟩"


def test_a_long_table_breaks_across_pages_under_its_header():
    pages = _images_of(blocks.table("caption", ["h"], [["r"]] * 200))
    assert len(pages) > 2
    top = [page[: page.shape[0] // 12][:, : page.shape[1] // 2] for page in pages[1:]]
    assert all((page < 250).any() and (page == top[0]).all() for page in top)


def test_a_row_higher_than_a_page_is_split():
    assert (
        len(
            _images_of(
                blocks.table("c", ["a", "b"], [["x", "once upon a time " * 900]], prose=("b",))
            )
        )
        >= 2
    )


@pytest.mark.parametrize("columns", [1, 3, 7, 19, 31])
@pytest.mark.parametrize("cell", ["7.00 (6.65 to 7.35)", "long words here " * 30, "x" * 300, ""])
def test_columns_fit_the_page(columns, cell):
    rows = [["short"] * (columns - 1) + [cell]] * 3
    content = blocks.table("caption", [f"h{column}" for column in range(columns)], rows)
    assert _rows_in_the_text_area(content) > 20


@pytest.mark.parametrize(("tokens", "maps"), [(1, 1), (2, 3), (24, 4), (24, 8), (64, 2), (64, 5)])
def test_maps_fit_the_page_and_none_is_left_out(tokens, maps):
    panels = [
        (f"layer 1, head {number}", np.eye(tokens) * (number + 1) / maps) for number in range(maps)
    ]
    content: Blocks = [blocks.Maps(["fourteenletter"] * tokens, panels)]
    assert _rows_in_the_text_area(content) > 20
    assert _pictures(build_paper([Part("data", "", "t", content)], "title", "", {})) == maps


@pytest.mark.parametrize(
    "content", [blocks.paragraph("x" * 4000), blocks.facts([("y" * 300, "x" * 3000)] * 3)]
)
def test_words_that_no_line_holds_are_broken(content):
    assert _rows_in_the_text_area(content) > 100


def test_folds_may_stay_off_paper():
    table = blocks.table("shown", ["a"], [["1"]])
    hidden = blocks.fold("more", blocks.table("hidden", ["a"], [["1"]] * 50), on_paper=False)
    with_hidden, without = _images_of(table + hidden), _images_of(table)
    assert all((one == other).all() for one, other in zip(with_hidden, without, strict=True))


def test_lines_under_the_title_are_in_the_paper():
    content = blocks.paragraph("text")
    plain, named = (
        np.asarray(
            Image.open(
                io.BytesIO(build_paper([], "t", "", {}, byline=byline, form="png")[0])
            ).convert("L")
        )
        for byline in ((), ("Ada Lovelace", "me/small-stories"))
    )
    assert (named < 250).any(axis=1).sum() > (plain < 250).any(axis=1).sum()
    assert _rows_in_the_text_area(content) > 0
