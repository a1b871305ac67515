"""The paper with report.compare none: at most 12 pages, the run's own, and honest about what it leaves out."""

import dataclasses
import re

import numpy as np
import pytest

from tests.report.conftest import write_run
from tests.support.report import report_settings
from tinylm.base.files import read_json
from tinylm.report import blocks
from tinylm.report.attention_sections import OWN_SENTENCES
from tinylm.report.blocks import Blocks
from tinylm.report.current import OWN_TEXTS
from tinylm.report.drawing import to_png
from tinylm.report.pictures import draw_pictures
from tinylm.report.quality_sections import OWN_PROMPTS
from tinylm.report.sections import Part, write_parts
from tinylm.report.short_paper import (
    FORMS,
    PAGES,
    SMALL,
    WHOLE,
    build_short_paper,
    pages,
    shortened,
)
from tinylm.report.sources import read_run
from tinylm.report.writing import PAPER, write_report

SENTENCE = "the fox ran home to see the mother and then they all went to sleep in the big house by the river"
STORY = (
    "once upon a time there was a little fox named tim who lived in a small house near the river "
    * 7
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, params):
    """A run of the default's size: 4 layers of 4 heads, three sentences, stories of 130 words."""
    folder = tmp_path_factory.mktemp("whole")
    write_run(folder, updates=1000, layers=4, heads=4, sentences=[SENTENCE] * 3)
    run = read_run(folder, params)
    samples = [row | {"reference": STORY, "continuation": STORY} for row in run.rows("samples")]
    beams = [row | {"reference": STORY, "text": STORY} for row in run.rows("beams")]
    stories = [row | {"text": STORY} for row in run.rows("stories")]
    more = {"samples": samples, "beams": beams, "stories": stories}
    return dataclasses.replace(run, found=run.found | more)


def _paper(run, **changes):
    parts = write_parts(run, report_settings(**changes))
    return build_short_paper(
        parts, "A title", "", {name: to_png(p.figure) for name, p in draw_pictures(run).items()}
    )


@pytest.fixture(scope="module")
def paper(whole):
    return _paper(whole)


def _titles(paper):
    return {title.decode("latin-1") for title in re.findall(rb"/Title\s*\((.*?)\)", paper)}


def test_a_run_of_the_default_size_has_at_most_twelve_pages(paper):
    assert 8 <= pages(paper) <= PAGES == 12
    titles = _titles(paper)
    assert {"1 Method", "1.2 Preprocessing", "2.1 How training went", "3 Discussion"} <= titles
    assert not [title for title in titles if "ublished" in title]


@pytest.mark.parametrize(("layers", "heads"), [(8, 8), (1, 1)])
def test_more_heads_and_own_texts_still_fit(whole, layers, heads, tmp_path, params):
    write_run(tmp_path, updates=200, layers=layers, heads=heads, sentences=[SENTENCE] * 5)
    run = read_run(tmp_path, params)
    moments = run.moments()
    rows = [
        {
            "prompt": SENTENCE,
            "continuation": STORY,
            "perplexity": 2.0,
            "finished": True,
            "unknown": [],
            "how": "x",
        }
    ]
    own = {"own_texts": rows * 30, "own_sentences": [(run.sentences()[0], moments)] * 10}
    run = dataclasses.replace(run, found=run.found | own)
    assert pages(_paper(run, samples=1000)) <= PAGES


def test_the_report_holds_it_only_where_nothing_is_compared(as_read, written, tmp_path):
    own = [
        {
            "prompt": "a",
            "continuation": "b",
            "perplexity": 2.0,
            "finished": True,
            "unknown": [],
            "how": "x",
        }
    ]
    write_report(
        dataclasses.replace(as_read, found=as_read.found | {"own_texts": own}),
        report_settings(),
        tmp_path,
    )
    assert (
        pages((tmp_path / PAPER).read_bytes()) <= PAGES < pages((written[0] / PAPER).read_bytes())
    )
    assert read_json(tmp_path / OWN_TEXTS) == own
    assert not (written[0] / OWN_TEXTS).exists()
    assert "Figures of every head" in (tmp_path / "report/index.html").read_text(
        "utf-8"
    )  # what the paper lacks


def test_the_same_run_gives_the_same_bytes(whole, paper):
    assert _paper(whole) == paper


def _part(content, anchor="pairs"):
    return Part(anchor, "s", "t", content)


def test_a_shortened_table_says_how_much_it_shows():
    content = blocks.table("Figures", ["a"], [["1"]] * 100) + blocks.table(
        "Texts", ["a"], [["x" * 400]] * 9
    )
    for form in FORMS:
        figures, texts = shortened(_part(content), form).blocks
        assert len(figures.rows) == form.rows
        assert figures.caption == f"Figures (the first {form.rows} of 100)"
        assert len(texts.rows) == form.texts
    short = blocks.table("Figures", ["a"], [["1"]] * SMALL)
    assert shortened(_part(short), FORMS[-1]).blocks == short


def test_what_was_asked_for_gives_way_last():
    prompts = blocks.table(OWN_PROMPTS, ["a", "b"], [["once", "x" * 400]] * 30)
    maps: Blocks = [blocks.Maps(["a"], [("head", np.eye(1))])] * 4
    sentence = blocks.fold("a sentence", maps + blocks.fold("Layer 1 over training", maps))
    content = prompts + blocks.heading(OWN_SENTENCES) + sentence * 10
    for form in FORMS[:8]:
        assert shortened(_part(content), form).blocks == content
    table, _, *folds = shortened(_part(content), FORMS[-1]).blocks
    assert table.caption == "Own prompts (the first 3 of 30)"
    assert [[type(block) for block in fold.blocks] for fold in folds] == [
        [blocks.Maps, blocks.Fold]
    ] * 3


def test_what_the_method_says_is_never_shortened():
    content = blocks.table("Figures", ["a"], [["1"]] * 100)
    for anchor in WHOLE:
        assert shortened(_part(content, anchor), FORMS[-1]).blocks == content


def test_folds_without_maps_and_details_stay_on_the_page():
    table = blocks.table("c", ["a"], [["1"]])
    content = table + blocks.fold("more", table) + blocks.heading("How heads differ") + table
    assert shortened(_part(content), FORMS[0]).blocks == table
    again = content + blocks.heading("Copying") + table
    assert shortened(_part(again), FORMS[0]).blocks == table + blocks.heading("Copying") + table


def test_texts_are_picked_from_first_to_last():
    items = [(str(n), str(n)) for n in range(9)]
    (quotes,) = shortened(_part([blocks.Quotes(items)]), FORMS[0]).blocks
    assert [name for name, _ in quotes.items] == ["0", "1", "2", "3", "5", "6", "7", "8"]
    (last,) = shortened(_part([blocks.Quotes(items)]), FORMS[-1]).blocks
    assert last.items == items[-1:]
