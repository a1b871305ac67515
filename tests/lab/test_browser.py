"""The lab with a trained model in Chromium: own sentences, heads, and the claims of every step of the tour."""

import re

import pytest
import torch

from tests.lab.browser import CHROMIUM, chromium
from tests.lab.recorded import write_recorded
from tinylm.evaluate.ablation import switched_off
from tinylm.evaluate.attention_maps import attention

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's Chromium")
WINDOWS = {"laptop": (1366, 650), "desk": (1400, 900), "phone": (390, 800)}
OWN = "Once upon a time there was a lily boy."


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("lab") / "lab.html"


@pytest.fixture(scope="module")
def model(file):
    return write_recorded(file)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def page(browser, file, model):
    browser.open(file, *WINDOWS["laptop"])
    yield browser
    assert browser.errors == []


def tab(page, view):
    page.click(f'#tabs [data-view="{view}"]')


def views(page):
    return page.each("#tabs button", "one.dataset.view")


def tour(page, step):
    """Open a step of the tour, and press its button if it has one."""
    tab(page, "tour")
    if step > 1:  # the first one is open
        page.click(f"#view-tour details:nth-of-type({step}) summary")
        page.click(f"#view-tour details:nth-of-type({step}) button")


def write(page, words=60):
    page.set("most", words)
    page.click("#write")
    page.wait("document.getElementById('write').textContent === 'Write'")


def story(page):
    return [text.strip() for text in page.texts("#story span")]


def choose(page, position):
    page.click(f"#token-{position}")


def shares(page, selector):
    """The percentages that elements show, as shares."""
    return [share_of(text) for text in page.texts(selector)]


def share_of(text):
    return 0.0 if text.startswith("<") else float(text.removesuffix(" %")) / 100


def chances_of(model, ids):
    """Probabilities of each next token, in Python."""
    with torch.no_grad():
        return model(torch.tensor([ids]))[0].softmax(dim=-1)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("window", WINDOWS)
def test_write_and_the_story_are_on_the_first_screen_and_nothing_is_cut(
    browser, file, model, window, dark
):
    width, height = WINDOWS[window]
    browser.open(file, width, height, dark)
    for text in ("Once", 30 * "Once upon a time there was a girl. "):
        browser.type("#prompt", text)
        browser.ask("scrollTo(0, 0)")
        for part in ("#prompt", "#write", "#story"):
            place = browser.place(part)
            assert 0 <= place["left"] < place["right"] <= width, part
            assert 0 <= place["top"] < place["bottom"] <= height, part
    for view in views(browser):
        tab(browser, view)
        assert browser.ask("document.documentElement.scrollWidth") <= width, view
    browser.click("#rules summary")
    end = browser.place("#rules .fields")["bottom"]
    for place in browser.each("#rules .fields > *", "one.getBoundingClientRect().toJSON()"):
        assert place["bottom"] <= end or place["top"] >= end
    assert browser.errors == []


def test_heads_and_the_next_word_are_on_one_screen(page):
    tab(page, "heads")
    page.click(".head input")
    page.ask("scrollTo(0, 0)")
    for part in ("#banner", "#heads", "#effect-bars"):
        place = page.place(part)
        assert 0 <= place["top"] < place["bottom"] <= WINDOWS["laptop"][1], part


def test_the_page_tells_the_truth_about_own_sentences(page, model):
    page.type("#prompt", OWN)
    ids = page.ask("lab.ids")
    chances = chances_of(model, ids)
    words = page.each("#typed button", "one.firstChild.data")
    assert words == ["Once", "upon", "a", "time", "there", "was", "a", "lily", "boy", "."]
    expected = [chances[n, ids[n + 1]].item() for n in range(len(words))]
    shown = page.texts("#typed small")
    for chance, text in zip(expected, shown, strict=True):
        if text.endswith("%"):
            assert share_of(text) == pytest.approx(chance, abs=0.0011)
        elif text.startswith("1 in"):
            assert 1 / float(text[5:].replace(",", "")) == pytest.approx(chance, rel=0.06)
        else:
            assert chance < 1.1e-6
    rare = [word for word, chance in zip(words, expected, strict=True) if chance < 0.001]
    (verdict,) = page.texts("#verdict")
    assert "lily" in rare
    assert f"(below 1 in 1,000): {', '.join(rare)}." in verdict
    assert "No word" not in verdict
    page.click("#typed button:nth-of-type(8)")
    assert page.texts("#next-about")[0].startswith("Instead of \u201clily\u201d")


def test_step_1_the_model_writes_and_a_seed_is_a_story(page):
    tour(page, 1)
    page.click("#openings button")
    page.click("#rules summary")
    write(page, 20)
    first = story(page)
    page.click("#undo")
    assert story(page) == first[:-1]
    page.click("#one")
    assert story(page) == first
    texts = []
    for seed in ("77", "1"):
        page.type("#seed", seed)
        page.click("#again")
        write(page, 20)
        texts.append(story(page))
    assert texts[0] != first
    assert texts[1] == first


def test_step_2_a_chosen_bar_goes_on_from_there(page):
    write(page, 20)
    tour(page, 2)
    choose(page, 12)
    before = story(page)
    row = page.each("#next-bars li", "one.className").index("")
    (word,) = page.texts(f"#next-bars li:nth-child({row + 1}) .word")
    page.click(f"#next-bars li:nth-child({row + 1}) button")
    assert story(page) == [*before[:12], word]


def test_step_3_temperature_changes_the_orange_bars_alone(page):
    write(page, 8)
    page.ask("Object.assign(lab.rules, { penalty: 1, topK: 0, topP: 1, minP: 0, eta: 0 })")
    tour(page, 3)
    page.click("#rules summary")

    def bars(temperature):
        page.set("temperature", temperature)
        numbers = shares(page, "#next-bars b")
        return numbers[::2], numbers[1::2]

    own, even = bars(2)
    own_sharp, sharp = bars(0.5)
    own_greedy, greedy = bars(0)
    assert own == own_sharp == own_greedy
    assert even[0] < own[0] < sharp[0]
    assert greedy[0] == 1
    assert sum(greedy) == 1


def test_step_4_the_head_that_copied_a_word_is_found_and_its_effect_is_real(page, model):
    page.type(
        "#prompt", 'Sara and Tom went to the park. Sara said to Tom: "Look, Tom!" Then Sara and Tom'
    )
    tour(page, 4)
    page.click("#copied")
    (told,) = page.texts("#copied-about")
    pattern = (
        r"To predict \u201c(.+?)\u201d, layer (\d), head (\d) put ([\d.]+ %) of its weight on an earlier "
        r"\u201c\1\u201d\. .* from (< 0\.1 %|[\d.]+ %) to (< 0\.1 %|[\d.]+ %)\."
    )
    word, layer, head, weight, before, without = re.fullmatch(pattern, told).groups()
    layer, head = int(layer) - 1, int(head) - 1
    position = page.ask("lab.chosen")
    ids = page.ask("lab.ids")
    assert story(page)[position] == word
    assert ids[position] in ids[1:position]

    row = attention(model, ids).maps[layer, head, position - 1]
    copies = [n for n in range(position) if ids[n] == ids[position]]
    assert row[copies].sum() == pytest.approx(share_of(weight), abs=0.002)
    on = chances_of(model, ids)[position - 1, ids[position]].item()
    with switched_off(model, layer, head):
        off = chances_of(model, ids)[position - 1, ids[position]].item()
    assert (on, off) == pytest.approx((share_of(before), share_of(without)), abs=0.002)
    assert on > off

    heads = model.settings.heads
    box = f".head:nth-child({layer * (heads + 1) + head + 2}) input"
    page.click(box)
    assert page.texts("#copied-about") == [told], "the reader still sees what was said"
    (taken_on, taken_off) = shares(page, "#effect-bars .taken b")
    assert (taken_on, taken_off) == (share_of(before), share_of(without))
    lengths = page.each("#effect-bars .taken i", "one.offsetWidth")
    full = page.each("#effect-bars .taken .bar span", "one.offsetWidth")
    expected = [max(1, share * width) for share, width in zip((on, off), full, strict=True)]
    assert lengths == pytest.approx(expected, abs=1), "bars go from 0 to 100 %"


def test_a_head_that_is_off_is_named_on_every_view(page):
    tab(page, "heads")
    page.click(".head input")
    for view in views(page):
        tab(page, view)
        assert page.texts("#banner p") == ["Layer 1, head 1 is off. Switch on"]
        place = page.place("#banner")
        assert 0 <= place["top"] < place["bottom"] <= WINDOWS["laptop"][1]
    page.click("#banner button")
    assert page.ask("document.getElementById('banner').hidden")
    tab(page, "heads")
    assert page.ask("document.querySelector('.head input').checked")


def test_the_map_names_the_weights_under_the_mouse(page, model):
    page.type("#prompt", OWN)
    tab(page, "heads")
    choose(page, 5)
    page.ask("document.getElementById('map').scrollIntoView({block: 'center'})")
    place = page.place("#map")
    cell, label = 15, 96  # pixels, of attention_map.js
    page.hover(place["left"] + 2.5 * cell, place["top"] + label + 4.5 * cell)  # row 5, column 3
    ids = page.ask("lab.ids")
    weight = attention(model, ids).maps[0, 0, 4, 2].item()
    (told,) = page.texts("#map-value")
    predicted, percent, seen = re.fullmatch(
        r"Predicting \u201c(.+)\u201d: (.+ %) on \u201c(.+)\u201d\.", told
    ).groups()
    assert (predicted, seen) == (story(page)[5], story(page)[2])
    assert share_of(percent) == pytest.approx(weight, abs=0.0011)
    assert page.texts("#heads-about") == [
        f"Where each head looked when the model predicted \u201c{predicted}\u201d (from \u201c{story(page)[4]}\u201d)."
    ]


def test_step_5_a_beam_of_width_1_is_greedy_and_a_wider_one_keeps_several(page):
    page.type("#prompt", "Once upon a time there was a")
    tour(page, 5)

    def search(width):
        page.set("width", width)
        page.set("beam-length", 8)
        page.click("#beams-run")
        page.wait("document.getElementById('beams-run').textContent === 'Search'")
        return page.texts("#beam-table tbody th"), page.texts("#beam-table td.text")

    methods, texts = search(1)
    assert methods[0] == "greedy"
    assert texts[0] == texts[2]
    methods, texts = search(5)
    assert len(set(texts[2:])) == 5


def test_step_6_the_time_without_a_cache_grows_with_the_text(page):
    tour(page, 6)
    page.click("#cache-run")
    page.wait("document.getElementById('cache-run').textContent === 'Measure'")
    times = [float(text.removesuffix(" ms")) for text in page.texts("#cache-bars b")]
    without, with_cache = times[::2], times[1::2]
    assert without[-1] > 3 * without[0]
    assert without[-1] > 3 * with_cache[-1]


def test_step_7_every_checkpoint_continues_and_an_earlier_one_is_named(page):
    tour(page, 7)
    page.click("#checkpoints-run")
    page.wait("document.getElementById('checkpoints-run').textContent === 'Continue it'")
    texts = page.texts("#checkpoint-texts button")
    assert len(set(texts)) == 2
    page.click("#checkpoint-texts button")
    assert page.texts("#banner p") == [
        "The model after 10 % of the training. Use the trained model"
    ]
    page.click("#banner button")
    assert page.ask("lab.checkpoint") == 1


@pytest.mark.parametrize("window", WINDOWS)
def test_the_story_covers_no_control_that_has_the_focus(browser, file, model, window):
    """Backwards, as with Shift and Tab: each control is scrolled to from below."""
    browser.open(file, *WINDOWS[window])
    tab(browser, "heads")
    covered = browser.ask("""(() => {
      const text = document.getElementById("text-part");
      const controls = [...document.querySelectorAll("main :is(button, input, select, summary)")];
      const reached = controls.filter((one) => one.offsetParent && !text.contains(one));
      return reached.reverse().filter((one) => {
        one.focus();
        const { left, right, top, height } = one.getBoundingClientRect();
        const place = [(left + right) / 2, top + height / 2];
        return text.contains(document.elementFromPoint(...place));
      }).map((one) => one.textContent || one.id);
    })()""")
    assert covered == []
