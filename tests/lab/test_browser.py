"""The page in headless Chromium, driven as a reader drives it. Skipped without the browser or without Playwright."""

import shutil
import time

import pytest
import torch

from tests.lab.test_engine import RULE, VOCAB, WIDTH
from tests.support.small import random_model
from tinylm.decoding.settings import DecodeSettings
from tinylm.lab.build import build_page
from tinylm.lab.facts import facts
from tinylm.vocab.words import Splitter, WordTokenizer

playwright = pytest.importorskip("playwright.sync_api")
BROWSER = shutil.which("chromium")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium")
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def content():
    torch.manual_seed(3)
    model = random_model(VOCAB, WIDTH, heads=2, context=60)
    earlier = random_model(VOCAB, WIDTH, heads=2, context=60)
    words = [token.replace("w", "word") for token in RULE["tokens"][4:-1]]
    tokenizer = WordTokenizer([*words, HOSTILE], Splitter(lower_case=False, punctuation="attached"))
    rule = RULE | {"tokens": tokenizer.tokens, "lower_case": False, "punctuation": "attached"}
    settings = DecodeSettings(temperature=1.0, top_k=20, seed=5)
    role = {"name": "previous token", "score": 0.4}
    head = {"roles": [role], "increase": 0.5, "low": 0.4, "high": 0.6}
    changes = {"prompt": f"word4 unheard {HOSTILE}", "heads": {"0.1": head}}
    page_facts = facts(model, tokenizer, settings, None, HOSTILE) | changes
    return build_page(model, rule, page_facts, [("after 1 epoch", earlier)])


@pytest.fixture(scope="module")
def chromium():
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(params=[(1400, "light"), (390, "dark")], ids=["wide", "telephone"])
def page(request, chromium, content, tmp_path):
    """The opened page; after the test: no error, no request but for the file, nothing stored, no dialog."""
    (tmp_path / "lab.html").write_bytes(content)
    width, scheme = request.param
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab = context.new_page()
    troubles, requests = [], []
    tab.on("console", lambda message: troubles.append(message.text))
    tab.on("pageerror", lambda error: troubles.append(str(error)))
    tab.on("dialog", lambda dialog: troubles.append(dialog.message))
    tab.on("request", lambda asked: requests.append(asked.url))
    tab.goto((tmp_path / "lab.html").as_uri())
    tab.wait_for_selector("#lab:not([hidden])")
    tab.evaluate("() => { document.getElementById('most').value = '20'; }")
    yield tab
    assert troubles == []
    addresses = {url for url in requests if not url.startswith("data:")}
    assert addresses == {(tmp_path / "lab.html").as_uri()}
    stored = "() => localStorage.length + sessionStorage.length + document.cookie.length"
    assert tab.evaluate(stored) == 0
    assert tab.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    assert not tab.query_selector_all("img")
    context.close()


def words(page):
    return [span.text_content().strip() for span in page.query_selector_all("#story span")]


def wait(page, name, text):
    for _ in range(300):
        if page.text_content(f"#{name}") == text:
            return
        time.sleep(0.05)
    raise AssertionError(f"{name} is not {text!r}")


def write(page):
    page.click("#write")
    wait(page, "write", "Write")


def bars(page, kind):
    return [
        bar.get_attribute("style") for bar in page.query_selector_all(f"#next-bars .bar .{kind}")
    ]


def test_a_story_is_written_undone_and_the_same_again(page):
    # nothing of the markup became an element
    assert words(page) == ["<sos>", "word4", *["<unk>"] * 4]
    assert "unheard" in page.text_content("#unknown")
    assert page.text_content("#state").startswith("5 words")  # <unk> is one, <sos> is none
    write(page)
    first = words(page)
    assert len(first) > 6
    page.click("#undo")
    assert words(page) == first[:-1]
    page.click("#one")
    assert words(page) == first
    page.click("#again")
    write(page)
    assert words(page) == first
    page.click("#rules summary")
    page.fill("#seed", "6")
    page.click("#again")
    write(page)
    assert words(page) != first


def test_heads_show_where_they_look_and_can_be_switched_off(page):
    write(page)
    page.click("#tabs [data-view=heads]")
    page.click("#story span:nth-child(5)")
    cells = page.query_selector_all("#heads .head")
    assert len(cells) == 4
    assert "previous token 40.0 %" in cells[1].text_content()
    assert "+0.500 nats" in cells[1].text_content()
    weights = page.evaluate("() => Array.from(lab.read().at(4).maps[0][1])")
    cells[1].query_selector("button").click()
    shaded = page.evaluate(
        "() => [...document.querySelectorAll('#story span')].map((span) => span.style.getPropertyValue('--weight'))"
    )
    assert [float(share) ** 2 for share in shaded[:5]] == pytest.approx(weights, abs=2e-3)
    page.click("#tabs [data-view=next]")
    old = bars(page, "before")
    page.click("#tabs [data-view=heads]")
    page.query_selector_all("#heads .head input")[1].click()
    page.click("#tabs [data-view=next]")
    assert bars(page, "before") != old
    assert "heads switched off: 1" in page.text_content("#state")


def test_beams_are_drawn_and_can_be_chosen(page):
    page.click("#tabs [data-view=beams]")
    page.fill("#width", "4")
    page.fill("#beam-length", "6")
    page.click("#beams-run")
    wait(page, "beams-run", "Search")
    ids = page.evaluate("() => lab.ids")
    rows = page.query_selector_all("#beam-table tbody tr")
    names = [row.query_selector("th").text_content() for row in rows[2:]]
    assert names == [f"beam {i}" for i in range(1, 5)]
    assert len(page.query_selector_all("#tree text")) > 12
    rows[2].query_selector("button").click()
    assert len(page.evaluate("() => lab.ids")) > len(ids)


def test_the_keyboard_reaches_everything(page):
    page.focus("#prompt")
    for _ in range(2):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # One word
    assert page.evaluate("() => lab.ids.length - lab.given") == 1
    page.focus("#story")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("() => lab.chosen === lab.ids.length - 2")
    page.keyboard.press("Escape")
    assert page.evaluate("() => lab.chosen") is None
    page.focus("#tabs [data-view=next]")
    page.keyboard.press("Enter")
    assert page.is_visible("#view-next")


def test_the_tour_leads_to_the_checkpoints(page):
    page.click("summary:has-text('How it learnt')")
    page.click("#view-tour button:has-text('Show the checkpoints')")
    page.click("#checkpoints-run")
    wait(page, "checkpoints-run", "Continue it")
    texts = [
        button.text_content() for button in page.query_selector_all("#checkpoint-texts button")
    ]
    assert len(texts) == 2
    assert all(len(text) > 10 for text in texts)
    page.fill("#checkpoint", "0")
    assert page.text_content("#checkpoint-value") == "after 1 epoch"
    assert "after 1 epoch" in page.text_content("#state")


def test_the_cache_is_measured(page):
    page.click("#tabs [data-view=cache]")
    page.click("#cache-run")
    wait(page, "cache-run", "Measure")
    assert "ms without a cache" in page.text_content("#cache-about")
    assert len(page.query_selector_all("#cache-chart polyline")) == 2


def test_a_word_chosen_in_the_story_leaves_a_branch(page):
    write(page)
    old = words(page)
    page.click("#tabs [data-view=next]")
    page.click("#story span:nth-child(9)")
    page.click("#next-bars li:not(.taken) button")
    assert len(words(page)) == 9
    page.click("#branches button")
    assert words(page) == old
