"""One text has one answer: Python, command and stage evaluate agree on it."""

import contextlib
import math
import warnings

import pytest
import yaml

import tinylm
from tests.exchange.test_tokenizer_files import tiny_gpt2
from tests.support import folders
from tests.support.small import DECODE, random_model
from tinylm.base.config import InputError, load_params
from tinylm.base.printable import visible
from tinylm.cli import main
from tinylm.download.settings import DataSettings
from tinylm.download.splits import write_stories
from tinylm.evaluate.split_score import score_split
from tinylm.model.checkpoint import save_model
from tinylm.params.presets.write import FOLDER
from tinylm.text.stories import read_texts
from tinylm.vocab.make_tokenizer import make_tokenizer
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.token_store import TokenStore, write_store

CONTEXT = 120
# BOM, decomposed letters, CR LF, a misread quote, a soft hyphen, a tab, a joiner, white space at the ends
RAW = "\ufeff The CAFE\u0301 cat\r\nsat,\ton the\u00ad mat. \u00e2\u20ac\u0153Go!\u00e2\u20ac\u2122 \u0645\u06cc\u200c\u062e \n"
TRAIN = [
    "the cat sat, on a mat and ran home.",
    "The CAFÉ's dog\t(it) said: “Go!”\nAnd the sun ’ میخ\u200c 小猫",
]
KINDS = {
    "drop": {"tokenizer": "words", "punctuation": "drop"},
    "keep": {"tokenizer": "words", "punctuation": "keep", "lower_case": False},
    "attached": {"tokenizer": "words", "punctuation": "attached"},
    "bpe": {"tokenizer": "bpe", "max_size": 300, "lower_case": False},
    "bpe-lower": {"tokenizer": "bpe", "max_size": 300},
    "longest_match": {"tokenizer": "longest_match", "max_size": 90},
    "gpt2": {},
}


@pytest.fixture(params=KINDS)
def folder(request, tmp_path, monkeypatch):
    """A run of each tokenizer, whose evaluation split is RAW."""
    monkeypatch.chdir(tmp_path)
    if request.param == "gpt2":
        vocabulary = tiny_gpt2(["Ġthe", "Ġcat"])
    else:
        settings = VocabSettings(**KINDS[request.param])
        vocabulary, _ = make_tokenizer(settings, lambda: TRAIN)
    vocabulary.save("data/vocab/tokenizer.json")
    for split, texts in (("train", TRAIN * 10), ("validation", [RAW])):
        folders.write_stories(tmp_path / f"in/{split}.jsonl", texts)
    data = DataSettings(source="local", path="in", held_out="tokens")
    write_stories(data, "data/stories")
    stories = [vocabulary.encode_story(text) for text in read_texts("data/stories", "evaluation")]
    write_store("data/tokens", "evaluation", stories, len(vocabulary))
    model = random_model(len(vocabulary), 12, context=CONTEXT, layers=1)
    save_model("models", model, layout="stories")
    params = load_params(FOLDER / "storybook.yaml")
    params["decode"] = DECODE
    params["runtime"] |= {"threads": 1, "device": "cpu"}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
    return tmp_path


def test_every_way_gives_the_same_answer(folder, capsys):
    with contextlib.ExitStack() as quiet:
        quiet.enter_context(warnings.catch_warnings(action="ignore"))  # unknown words
        lm = tinylm.load("models")
        clean = next(read_texts("data/stories", "evaluation"))
        store = TokenStore("data/tokens", "evaluation")
        scored, *_ = score_split(lm.model, lm.tokenizer, store, "stories", "data/stories")
        for text in (RAW, clean):
            assert lm.perplexity(text) == pytest.approx(scored.perplexity, rel=1e-5)
        expected = lm.generate(clean, max_tokens=4, temperature=0, log_probs=True)
        assert lm.generate(RAW, max_tokens=4, temperature=0) == expected
        assert "".join(lm.stream(RAW, max_tokens=4, temperature=0)) == expected
        assert main(["generate", RAW, "--greedy", "--max-tokens", "4", "--log-probs"]) == 0
        assert capsys.readouterr().out.startswith(visible(expected))

        if lm.tokenizer.sos_id is not None:
            ids = lm.tokenizer.encode_story(clean)
            end = lm._log_probs(ids, len(ids) - 1).sum()
            nats = math.log(scored.perplexity) * scored.tokens
            assert lm.log_prob(RAW) + end == pytest.approx(-nats, abs=1e-3)
        likeliest = lm.next_words(RAW, len(lm.tokenizer))
        probability = dict(likeliest)
        first = lm.tokenizer.shown(expected.new_ids[0])
        assert math.log(probability[first]) == pytest.approx(expected.log_probs[0], abs=1e-4)


def test_a_text_in_two_parts_is_as_likely_as_the_whole(folder):
    """ln P(a + b) = ln P(a) + ln P(b, given=a) wherever the ids of a begin those of a + b."""
    whole = "the cat sat, on\na mat. The sun"
    with warnings.catch_warnings(action="ignore"):  # unknown words
        lm = tinylm.load("models")
        encode = lm.tokenizer.encode_story
        expected = lm.log_prob(whole)
        split = []
        for cut in range(1, len(whole)):
            first, second = whole[:cut], whole[cut:]
            if lm.tokenizer.kind == "words":
                together = lm.tokenizer.encode(first) + lm.tokenizer.encode(second)
                if together != lm.tokenizer.encode(whole):
                    continue
            try:
                after = lm.log_prob(second, given=first)
            except InputError:
                ids = lm._opened(first)
                assert encode(whole)[: len(ids)] != ids
                continue
            parts = after
            if len(lm._opened(first)) > 1 or lm.tokenizer.sos_id is not None:
                parts += lm.log_prob(first)
            assert parts == pytest.approx(expected, abs=1e-4), (first, second)
            split.append(second)
        assert {" sat, on\na mat. The sun", "\na mat. The sun"} <= set(split)
