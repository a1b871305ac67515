"""The page as a file, what it says of a model and its run, and the page as a reader uses it."""

import base64
import hashlib
import itertools
import json
import math
import re
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as drawn
from hypothesis import strategies as st

from tests.lab.page_engine import Engine, UsedPage
from tests.lab.recorded import PAGE, page_of_today
from tests.lab.test_engine import FACTS, RULE, VOCAB, WIDTH
from tests.support.clone import set_params
from tests.support.random_run import make_run
from tests.support.runs import part
from tests.support.small import random_model, words_of
from tests.support.stages import ROOT
from tinylm.base.config import InputError, load_params, read_yaml
from tinylm.cli import main
from tinylm.cli.lab import LEADING_THERE
from tinylm.decoding.settings import DecodeSettings
from tinylm.lab import build
from tinylm.lab.build import build_page
from tinylm.lab.making import facts, make_page
from tinylm.model.checkpoint import load_model
from tinylm.run.evaluated import Evaluated
from tinylm.run.finished_run import FinishedRun, Tables, read_run
from tinylm.run.trained import Trained
from tinylm.storybook.corpus import generate as generate_stories
from tinylm.text.words import Splitter
from tinylm.vocab.words import WordTokenizer

HOSTILE = '</script><script>alert(1)</script><img src=x onerror=alert(2)> & "\u2019\u4e2d" <!--'


def test_the_lab_of_real_stories_is_todays_page():
    assert PAGE.read_bytes() == page_of_today(), "make pages writes it again"


def page_of(facts=FACTS, **options):
    return build.build_page(random_model(VOCAB, WIDTH), RULE, facts, **options).decode("utf-8")


def tags_of(page):
    return re.findall("<[a-z/!]+", page)


def test_the_page_asks_for_nothing_and_its_policy_allows_only_its_own_code():
    page = page_of()
    assert re.findall(r'<[^>]* (?:src|href|action)="([^"]*)"', page) == ["data:,"]
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", build.bundle())
    forbidden = r"fetch\(|XMLHttpRequest|WebSocket|innerHTML|insertAdjacentHTML|localStorage|eval\("
    assert not re.search(forbidden, build.bundle())
    (policy,) = re.findall(r'"Content-Security-Policy" content="([^"]*)"', page)
    assert policy.startswith("default-src 'none'; ")
    for element in ("style", 'script type="module"'):
        text = re.search(rf"<{element}>(.*?)</{element.split()[0]}>", page, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(text.encode("ascii")).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "unsafe-inline" not in policy
    assert "'unsafe-eval'" not in policy


def test_links_lead_to_the_report_beside_the_page_and_to_the_project():
    links = {"the report": "index.html", HOSTILE: 'https://a.example/"><b>'}
    page = page_of(FACTS | {"links": links})
    assert re.findall(r'<a href="([^"]*)">', page) == [
        "index.html",
        "https://a.example/&quot;&gt;&lt;b&gt;",
    ]
    assert len(tags_of(page)) == len(tags_of(page_of())) + 2 * (1 + len(links))


def test_earlier_checkpoints_are_read_back_within_half_a_step():
    model, earlier = random_model(VOCAB, WIDTH), random_model(VOCAB, WIDTH)
    engine = Engine(build.build_page(model, RULE, FACTS, [("a", earlier)]))
    read = "(n) => readTensors(facts, facts.checkpoints[n])"
    for name, values in earlier.state_dict().items():
        tensor = engine.call(f"(name) => ({read})(0)[name]", name)
        found = np.array(list(tensor["data"].values())).reshape(values.shape)
        expected = values.numpy()
        if values.ndim != 2:
            assert np.allclose(found, expected, rtol=2**-8)
            continue
        step = np.abs(found).max(axis=1, keepdims=True) / build.COARSEST
        clipped = np.clip(expected, -build.COARSEST * step, build.COARSEST * step)
        assert np.all(np.abs(found - clipped) <= 0.52 * step)


@pytest.mark.parametrize(
    ("room", "held"), [(0, []), (1, ["a"]), (2, ["a", "c"]), (3, ["a", "b", "c"])]
)
def test_checkpoints_are_held_as_long_as_they_fit(monkeypatch, room, held):
    model = random_model(VOCAB, WIDTH)
    checkpoints = [(name, model) for name in "abc"]
    alone = len(build.build_page(model, RULE, FACTS))
    one = len(build.build_page(model, RULE, FACTS, checkpoints[:1])) - alone
    (trained,) = Engine(build.build_page(model, RULE, FACTS)).facts["checkpoints"]
    monkeypatch.setattr(build, "MAX_WEIGHTS", int(len(json.dumps(trained)) + (room + 0.5) * one))
    page = build.build_page(model, RULE, FACTS, checkpoints)
    assert [checkpoint["name"] for checkpoint in Engine(page).facts["checkpoints"]] == [
        *held,
        "the trained model",
    ]


def test_a_model_too_large_for_a_page_is_refused(monkeypatch):
    monkeypatch.setattr(build, "MAX_PARAMETERS", 1000)
    with pytest.raises(InputError, match="1,000 parameters"):
        page_of()


def test_the_command_writes_a_page_that_answers_as_the_model(tmp_path, monkeypatch, capsys):
    make_run(tmp_path, "keep")
    set_params(tmp_path, {"cache.slide": "one", "beam_bench.length_penalty": 0.25})
    of_other_code = tmp_path / "data/figures/kv_bench.json"  # not shown on the page
    of_other_code.parent.mkdir()
    of_other_code.write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert main(["lab", "-o", "out/story.html"]) == 0
    assert "out/story.html: 0.1 MB" in capsys.readouterr().out
    engine = Engine((tmp_path / "out/story.html").read_bytes())
    assert (engine.facts["slide"], engine.facts["length_penalty"]) == ("one", 0.25)
    assert len(engine.call("logits", [0, 5])) == engine.facts["settings"]["vocab_size"]


def test_the_page_of_a_finished_run_says_how_good_the_model_is(tmp_path, monkeypatch, finished_run):
    monkeypatch.chdir(finished_run)
    assert main(["lab", "-o", f"{tmp_path}/own.html"]) == 0
    assert "perplexity" in Engine((tmp_path / "own.html").read_bytes()).facts["about"]


@drawn(max_examples=30)
@given(new=st.sets(st.sampled_from([*itertools.combinations(LEADING_THERE, 2)])))
def test_results_of_another_model_are_left_out(finished_run, tmp_path_factory, new):
    """As after `dvc repro train`. new: the pairs of stages of which the first ran again after the second."""
    stages = {}
    for later in LEADING_THERE:
        deps = [
            {"path": earlier, "md5": "old" if (earlier, later) in new else "new"}
            for earlier in LEADING_THERE[: LEADING_THERE.index(later)]
        ]
        stages[later] = {"deps": deps, "outs": [{"path": later, "md5": "new"}]}
    older = {later for _, later in new}
    expected = {"download", "train", "evaluate"} - older
    if older & {"vocab", "train"}:
        expected -= {"download"}  # the model was trained on other stories
    shown = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(finished_run)
        patch.setattr("tinylm.run.lock.read_lock", lambda folder: stages)
        patch.setattr("tinylm.lab.making.make_page", lambda *given: shown.append(given[-1]) or b"")
        assert main(["lab", "-o", f"{tmp_path_factory.getbasetemp()}/lab.html"]) == 0
        (run,) = shown
        assert {stage for stage in LEADING_THERE if getattr(run, stage)} == expected
        patch.setattr("tinylm.run.finished_run.read_lock", lambda folder: stages)
        refused = pytest.raises(InputError, match="is older than what it read")
        with refused if older else nullcontext():
            read_run(".", load_params()).refuse_mixed()


def test_a_page_without_the_results_of_stage_evaluate_names_none(
    tmp_path, monkeypatch, finished_run, capsys
):
    monkeypatch.chdir(finished_run)
    monkeypatch.setattr("tinylm.run.lock.outdated", lambda lock, names: ["evaluate"])
    assert main(["lab", "-o", f"{tmp_path}/lab.html"]) == 0
    assert "evaluate: its results are left out" in capsys.readouterr().out
    shown = Engine((tmp_path / "lab.html").read_bytes()).facts
    assert "perplexity" not in shown["about"]
    assert not shown["heads"]


def test_further_seeds_of_other_settings_are_refused(monkeypatch, finished_run):
    monkeypatch.chdir(finished_run)
    lock = {"train": {"params": {"params.yaml": {"train": {"lr": 7}}}}, "seeds": {}}
    monkeypatch.setattr("tinylm.run.finished_run.read_lock", lambda folder: lock)
    with pytest.raises(InputError, match="seed 2 ran with other settings"):
        read_run(".", load_params()).refuse_mixed()


@given(
    stage=st.sampled_from(["download", "vocab", "train", "evaluate"]),
    key=st.sampled_from(["data.seed", "vocab.max_size", "train.lr", "evaluate.stories"]),
)
def test_results_of_other_settings_are_refused(finished_run, stage, key):
    """Whichever stages ran before an edit of whichever section that they read."""
    params = load_params(finished_run / "params.yaml")
    section, _, name = key.partition(".")
    params[section][name] = 77
    run = read_run(finished_run, params, stages=[stage])
    reads = section in read_yaml(ROOT / "dvc.yaml")["stages"][stage]["params"]
    with pytest.raises(InputError, match=f"{key} is 77") if reads else nullcontext():
        run.refuse_mixed()


@drawn(max_examples=10, suppress_health_check=list(HealthCheck))
@given(
    done=st.floats(0.1, 9),
    percent=st.lists(st.integers(1, 120), min_size=1, max_size=3, unique=True),
    saved=st.none() | st.integers(0, 100),
)
def test_checkpoints_are_named_by_their_share_of_the_training_that_was_done(
    tmp_path, done, percent, saved
):
    """saved: that of the saved weights; they stand where they were made, on which the page opens."""
    if not (tmp_path / "models").exists():
        make_run(tmp_path, "keep")
    models, vocab = tmp_path / "models", tmp_path / "data/vocab/tokenizer.json"
    kept = [(done * (share / 100), load_model(models)[0]) for share in sorted(percent)]
    params = load_params(tmp_path / "params.yaml") | {"train": {"epochs": 2 * done}}
    at = None if saved is None else done * (saved / 100)
    run = FinishedRun(params=params, train=part(Trained, epochs=done, saved_epochs=at))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tinylm.lab.making.load_checkpoints", lambda folder: kept)
        shown = Engine(make_page(models, vocab, params, run)).facts
    expected = [f"after {min(share, 100)} % of the training" for share in sorted(percent)]
    place, name = len(percent), "the trained model"
    if saved is not None and saved < 100:
        place = sum(share <= saved for share in percent)
        name += f", after {saved} % of the training"
    expected.insert(place, name)
    assert [checkpoint["name"] for checkpoint in shown["checkpoints"]] == expected
    assert shown["trained"] == place


def test_markup_in_titles_and_words_stays_text():
    rule = RULE | {"tokens": [HOSTILE, *RULE["tokens"][1:]]}
    facts = FACTS | {"title": HOSTILE, "about": HOSTILE, "prompt": HOSTILE}
    page = build.build_page(random_model(VOCAB, WIDTH), rule, facts)
    assert tags_of(page.decode("utf-8")) == tags_of(page_of())
    assert Engine(page).facts["tokenizer"]["tokens"][0] == HOSTILE


WORD_TOKENIZER = WordTokenizer((f"w{i}" for i in range(37)), Splitter(True, "drop"))
COLUMNS = ("role", "layer", "head", "score", "baseline", "claimed")
ROLES = [
    dict(zip(COLUMNS, ("same word", 2, 1, 0.5, 0.4, False))),
    dict(zip(COLUMNS, ("previous token", 1, 3, 0.7, 0.1, True))),
]
ABLATION = [{"layer": 1, "head": 3, "loss_increase": 0.25, "low": 0.2, "high": 0.3}]


def facts_of(run):
    return facts(
        random_model(41, 20),
        WORD_TOKENIZER,
        DecodeSettings(temperature=0.7, top_k=9),
        run,
        "A title",
    )


def run_of(perplexity, prompts=(), first=()):
    params = {"report": {"prompts": prompts}}
    samples = [{"prompt": text} for text in (*first, "once there was", "once upon a", "long ago a")]
    tables = {"roles": ROLES, "ablation": ABLATION, "samples": samples}
    return FinishedRun(
        params=params,
        evaluate=part(Evaluated, perplexity=perplexity),
        tables=Tables(**{name: pd.DataFrame(rows) for name, rows in tables.items()}),
    )


def test_roles_and_costs_are_those_of_the_run():
    page = facts_of(run_of(2.5))
    assert page["heads"]["0.2"] == {
        "roles": [{"name": "previous token", "score": 0.7}],
        **{"increase": 0.25, "low": 0.2, "high": 0.3},
    }
    assert page["heads"]["1.0"] == {"roles": []}
    assert "perplexity is 2.50" in page["about"]
    assert page["prompt"] == page["openings"][0]
    assert (page["rules"]["temperature"], page["rules"]["topK"]) == (0.7, 9)


def test_openings_are_the_readers_own_or_those_of_evaluation_stories():
    assert facts_of(run_of(2.5))["openings"] == ["once there was", "long ago a"]
    assert facts_of(run_of(2.5, ["my dog", "my cat"]))["openings"] == ["my dog", "my cat"]
    with_mark = run_of(2.5, first=[" "])  # what <sos> decodes to
    assert facts_of(with_mark)["openings"] == ["once there was", "long ago a"]
    without = facts_of(None)
    assert (without["heads"], without["openings"]) == ({}, [])
    assert "perplexity" not in without["about"]


@pytest.mark.parametrize("prompts", ["starts", "stream"])
def test_only_texts_from_the_start_of_a_story_are_judged_by_its_generator(prompts):
    train, _ = generate_stories(2, 1, 1)
    texts = [story.text for story in train]
    tokenizer = words_of(texts)
    first = texts[0].split()
    samples = [{"prompt": " ".join(first[:4]), "continuation": " ".join(first[4:])}]
    run = FinishedRun(
        params={"data": {"source": "storybook"}, "evaluate": {"prompts": prompts}},
        tables=Tables(samples=pd.DataFrame(samples)),
    )
    page = facts(random_model(len(tokenizer), 20), tokenizer, DecodeSettings(), run, "A title")
    assert len(page["samples"]) == (prompts == "starts")
    assert bool(page["truths"]) == (prompts == "starts")


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
    styles = page.call("() => find('#typed button').map((one) => one.style.values['--surprise'])")
    assert float(styles[0]) == pytest.approx(min(1, -math.log(first) / 10), abs=0.006)
    page.fill("#prompt", "word4")
    assert "unheard" not in page.texts("#verdict")[0]


def test_the_verdict_names_every_improbable_word(page):
    words = [
        {"text": text, "chance": 0.5, "isUnknown": False} for text in ("once", "a", "we", "go")
    ]
    assert page.call("(words) => verdict(lab, words)", words).startswith("No word here is very")
    words[3] = {"text": "boy", "chance": 1 / 9900, "isUnknown": False}
    assert page.call("(words) => verdict(lab, words)", words) == (
        "Very improbable here (below 1 in 1,000): boy."
    )
    words[0] = {"text": "zzz", "chance": 0.5, "isUnknown": True}
    told = page.call("(words) => verdict(lab, words)", words)
    assert told.startswith(
        "Not among its 41 words: zzz. Very improbable here (below 1 in 1,000): boy."
    )
    assert "2 of 4 words surprise the model" in told


def test_a_typed_word_leads_to_its_place_in_the_story(page):
    page.fill("#prompt", "word4 word5 word6")
    page.click("#typed button", 1)
    assert page.call("() => lab.chosen") == 2
    assert not page.call("() => find('#view-next')[0].hidden"), "the tour shows no probabilities"


def test_what_follows_the_first_impossible_word_is_not_judged(page):
    page.fill("#prompt", "word5 word9 word4")
    judged = "(name) => find('#story span').map((one) => one.classList.has(name))"
    assert page.call(judged, "impossible") == [False, False, True, False]
    assert page.call(judged, "unjudged") == [False, False, False, True]


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
    page.click("#heads button", 1)
    assert "previous token 40.0 %" in page.texts("#head-about")[0]
    page.click("#story span", 5)
    assert page.texts("#heads-about")[0].startswith(
        "Where each head looked when the model predicted"
    )
    before = page.call("() => lab.chances().before[7]")
    page.call(
        "() => { const box = find('#heads input')[1]; box.checked = false; box.send('change'); }"
    )
    assert page.call("() => lab.chances().before[7]") != before
    assert page.texts("#banner p") == ["Layer 1, head 2 is off. Switch on"]
    page.click("#banner button")
    assert page.texts("#banner p") == []
    assert page.call("() => lab.chances().before[7]") == before
    assert page.call("() => find('#heads input').every((box) => box.checked)")


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(0.1, 0.3, "changes by \u221218.1 %."), (-0.1, 0.5, "does not change measurably.")],
)
def test_what_the_run_measured_of_a_head_is_one_sentence(page, low, high, said):
    page.click("#write")
    page.click("#tabs button", 2)
    page.call(
        "(found) => { lab.facts.heads['0.1'] = found; }",
        {"increase": 0.2, "low": low, "high": high},
    )
    page.click("#heads button", 1)
    (told,) = page.texts("#head-about")
    assert told.startswith(
        "Layer 1, head 2, over many stories: without it, the probability of the right word "
    )
    assert told.endswith(said)


def test_heads_on_and_off_are_compared_in_the_window_that_is_shown(page):
    page.fill("#prompt", " ".join(WORDS[:30] * 3))
    start = page.call("() => lab.read().start")
    assert start > 0, "the text is longer than the context"
    assert page.call("(at) => lab.chancesWithout(lab.off, at)", start) is None
    probability = "(at) => [lab.chancesWithout(lab.off, at)[9], lab.ownChances(at)[9]]"
    for position in (start + 1, start + 20):
        again, shown = page.call(probability, position)
        assert again == shown


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
    assert page.texts("#banner p") == ["The model after 1 epoch. Use the trained model"]
    page.click("#banner button")
    assert page.texts("#banner p") == []


def test_the_story_goes_on_from_a_word_chosen_instead(page):
    page.click("#write")
    page.click("#tabs button", 1)
    page.click("#story span", 8)
    taken = page.call("() => find('#next-bars li').findIndex((one) => one.classList.has('taken'))")
    page.click("#next-bars button", 1 if taken == 0 else 0)
    assert len(story(page)) == 9
