"""The page as a file: whole, offline, escaped, within its size, the same bytes twice."""

import base64
import hashlib
import re

import pytest

from tests.lab.page_engine import Engine
from tests.lab.test_engine import FACTS, RULE, VOCAB, WIDTH
from tests.support.clone import set_params
from tests.support.random_run import make_run
from tests.support.small import random_model
from tinylm.base.config import InputError
from tinylm.cli import main
from tinylm.lab import build

HOSTILE = '</script><script>alert(1)</script><img src=x onerror=alert(2)> & "\u2019\u4e2d" <!--'


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


@pytest.mark.parametrize(
    ("room", "held"), [(0, []), (1, ["a"]), (2, ["a", "c"]), (3, ["a", "b", "c"])]
)
def test_checkpoints_are_held_as_long_as_they_fit(monkeypatch, room, held):
    model = random_model(VOCAB, WIDTH)
    checkpoints = [(name, model) for name in "abc"]
    alone = len(build.build_page(model, RULE, FACTS))
    one = len(build.build_page(model, RULE, FACTS, checkpoints[:1])) - alone
    monkeypatch.setattr(build, "MAX_WEIGHTS", int((room + 1.5) * one))
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
    monkeypatch.chdir(tmp_path)
    assert main(["lab", "-o", "out/story.html"]) == 0
    assert "out/story.html: 0.1 MB" in capsys.readouterr().out
    engine = Engine((tmp_path / "out/story.html").read_bytes())
    assert (engine.facts["slide"], engine.facts["length_penalty"]) == ("one", 0.25)
    assert len(engine.call("logits", [0, 5])) == engine.facts["settings"]["vocab_size"]


def test_markup_in_titles_and_words_stays_text():
    rule = RULE | {"tokens": [HOSTILE, *RULE["tokens"][1:]]}
    facts = FACTS | {"title": HOSTILE, "about": HOSTILE, "prompt": HOSTILE}
    page = build.build_page(random_model(VOCAB, WIDTH), rule, facts)
    assert tags_of(page.decode("utf-8")) == tags_of(page_of())
    assert Engine(page).facts["tokenizer"]["tokens"][0] == HOSTILE
