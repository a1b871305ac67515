"""The page used as a reader uses it: typed, clicked, written, undone."""

import math

import pytest

from tests.lab.page_engine import UsedPage
from tests.lab.test_engine import RULE, VOCAB, WIDTH
from tests.support.small import random_model
from tinylm.decoding.settings import DecodeSettings
from tinylm.lab.build import build_page
from tinylm.lab.making import facts
from tinylm.vocab.words import Splitter, WordTokenizer

WORDS = [f"word{index}" for index in range(4, VOCAB)]
OPENINGS = ["word5 word6", "word7 word8 word9"]


@pytest.fixture
def page():
    tokenizer = WordTokenizer(WORDS, Splitter(lower_case=True, punctuation="drop"))
    model = random_model(VOCAB, WIDTH, heads=2, context=60)
    earlier = random_model(VOCAB, WIDTH, heads=2, context=60)
    settings = DecodeSettings(temperature=1.0, top_k=20, seed=1)
    head = {"roles": [{"name": "previous token", "score": 0.4}], "increase": 0.5, "low": 0.4}
    changes = {"prompt": "word4 unheard", "openings": OPENINGS, "heads": {"0.1": head}, "most": 20}
    truth = {"ids": [5, 6], "next": [{5: 1.0}, {6: 0.25, 7: 0.75}, {8: 1.0}]}
    changes |= {"truths": [truth], "samples": ["word5 word6"]}
    shown = facts(model, tokenizer, settings, None, "title") | changes
    rule = RULE | {"tokens": tokenizer.tokens}
    return UsedPage(build_page(model, rule, shown, [("after 1 epoch", earlier)]))


def story(page):
    return [text.strip() for text in page.texts("#story span")]


def test_typed_words_show_what_the_model_expected_and_which_it_does_not_know(page):
    known, unknown = page.call("() => typedWords(lab, 'word4 unheard')")
    assert (known["isUnknown"], unknown["isUnknown"]) == (False, True)
    assert unknown["text"] == "unheard"
    (first,) = page.call("() => [softmax(lab.model.logits(lab.read().at(0).hidden))[4]]")
    assert known["chance"] == pytest.approx(first)
    assert "unheard" in page.texts("#verdict")[0]
    styles = page.call("() => find('#typed span').map((one) => one.style.values['--surprise'])")
    assert float(styles[0]) == pytest.approx(min(1, -math.log(first) / 10), abs=0.006)
    page.fill("#prompt", "word4")
    assert "unheard" not in page.texts("#verdict")[0]


def test_an_opening_is_one_click_away(page):
    assert page.texts("#openings button") == OPENINGS
    page.click("#openings button", 1)
    assert story(page) == ["<sos>", "word7", "word8", "word9"]


def test_a_story_is_written_undone_and_the_same_again(page):
    assert story(page) == ["<sos>", "word4", "<unk>"]
    page.click("#write")
    first = story(page)
    assert len(first) > 6
    page.click("#undo")
    assert story(page) == first[:-1]
    page.click("#one")
    assert story(page) == first
    page.click("#again")
    page.click("#write")
    assert story(page) == first
    page.fill("#seed", "6")
    page.click("#again")
    page.click("#write")
    assert story(page) != first


def test_the_generators_probabilities_stand_beside_the_models(page):
    page.click("#tabs button", 1)
    page.click("#samples button")
    page.click("#story span", 2)
    bars = page.texts("#next-bars button")
    assert any(text.startswith("word625.0 %") for text in bars)
    assert page.texts("#next-about")[0].endswith("of the probability.")
    page.fill("#prompt", "word5 word9 word4")
    page.click("#story span", 3)
    assert "could not have written \u201cword9\u201d (word 2)" in page.texts("#next-about")[0]
    page.fill("#prompt", "word5 word6 word8 word4")
    page.click("#story span", 4)
    assert "only in its openings" in page.texts("#next-about")[0]


def test_a_head_that_is_switched_off_changes_the_next_word(page):
    page.click("#write")
    page.click("#tabs button", 2)
    assert len(page.texts(".head")) == 4
    assert "previous token 40.0 %" in page.texts(".head")[1]
    before = page.call("() => lab.chances().before[7]")
    page.call(
        "() => { const box = find('#heads input')[1]; box.checked = false; box.send('change'); }"
    )
    assert page.call("() => lab.chances().before[7]") != before


def test_beams_and_earlier_checkpoints_are_shown(page):
    page.fill("#width", "4")
    page.fill("#beam-length", "6")
    page.click("#beams-run")
    rows = page.texts("#beam-table th")[4:]
    assert rows == [
        "greedy",
        "sample, temperature 1",
        *(f"beam search, rank {rank}" for rank in (1, 2, 3, 4)),
    ]
    page.click("#checkpoints-run")
    texts = page.texts("#checkpoint-texts button")
    assert len(texts) == 2
    assert all(len(text.split()) > 2 for text in texts)
    page.click("#checkpoint-texts button", 0)
    assert "after 1 epoch" in page.texts("#state")[0]


def test_the_story_goes_on_from_a_word_chosen_instead(page):
    page.click("#write")
    page.click("#tabs button", 1)
    page.click("#story span", 8)
    taken = page.call("() => find('#next-bars li').findIndex((one) => one.classList.has('taken'))")
    page.click("#next-bars button", 1 if taken == 0 else 0)
    assert len(story(page)) == 9
