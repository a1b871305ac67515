"""The page's model and tokenizers on V8, without a browser: the same ids, logits, texts and beams as tinylm's."""

import dataclasses
import itertools
import json
import unicodedata
import warnings

import numpy as np
import pytest
import tokenizers
from hypothesis import HealthCheck, given
from hypothesis import settings as drawn
from hypothesis import strategies as st
from py_mini_racer import MiniRacer

from tests.lab.page_engine import Engine
from tests.support.small import pairs, random_model
from tinylm.decoding.beam_search import beam_search
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.sampling import Sampling, generate
from tinylm.decoding.session import Session, decoding_mode
from tinylm.decoding.settings import BeamSettings, DecodeSettings
from tinylm.evaluate.ablation import switched_off
from tinylm.evaluate.attention_maps import attention
from tinylm.lab import build
from tinylm.lab.build import bundle, rule_of
from tinylm.lab.making import decoding_rules
from tinylm.text.words import normalising_steps, word_patterns
from tinylm.vocab.make_tokenizer import make_tokenizer
from tinylm.vocab.open_tokenizer import open_tokenizer
from tinylm.vocab.settings import PUNCTUATIONS, VocabSettings

VOCAB, WIDTH = 41, 20
RULE = {
    "kind": "words", "tokens": [f"w{i}" for i in range(VOCAB)], "shown": {}, "specials": [0, 1, 2, 3], "banned": [0, 2, 3],
    "hidden": [0, 1, 2], "sos_id": 0, "eos_id": 1, "unk_id": 3, "lower_case": True, "punctuation": "drop",
    "steps": normalising_steps(True, "drop"), "words": word_patterns("drop"),
}  # fmt: skip
FACTS = {"title": "t", "about": "a", "token": "word", "slide": "half"}
PROMPTS = [[0, 5, 9], [0], [0, *range(4, 30)]]  # the last one is longer than the context


def engine_of(model, rule=RULE, **facts):
    """The page of a model, whose matrices are rounded in place as the page stores them."""
    for values in model.state_dict().values():
        if values.ndim == 2:
            step = values.abs().amax(dim=1, keepdim=True) / 127
            values.copy_((values / step).round() * step)
    return Engine(build.build_page(model, rule, FACTS | facts))


SHAPES = {
    "norm": ["pre", "post"], "norm_kind": ["layer", "rms", "std"], "final_norm": [True, False],
    "positions": ["sinusoids", "learned", "rotary", "none"], "activation": ["gelu", "relu"], "heads": [1, 3, 4],
    "head_width": [5, 6], "tied_output": [True, False], "output_bias": [True, False], "qkv_bias": [True, False],
}  # fmt: skip


@pytest.mark.parametrize("values", pairs(*SHAPES.values()), ids=str)
def test_logits_and_attention_of_every_architecture(values):
    shape = dict(zip(SHAPES, values, strict=True))
    if shape["positions"] == "rotary":
        shape["head_width"] = 6  # an even number
    model = random_model(VOCAB, WIDTH, **shape)
    engine = engine_of(model)
    for ids in PROMPTS:
        with decoding_mode(model):
            expected = Session(model, [ids]).next_logits()[0].numpy()
        logits = np.array(engine.call("logits", ids))
        assert np.abs(logits - expected).max() <= 1e-4 * np.abs(expected).max()
    ids = PROMPTS[0]
    with decoding_mode(model):
        maps = attention(model, ids).maps  # (layers, heads, T, T)
    seen = engine.call("look", ids)
    for t, layer, head in itertools.product(range(len(ids)), *map(range, maps.shape[:2])):
        assert np.allclose(seen[t][layer][head], maps[layer, head, t, : t + 1], atol=1e-5)


@pytest.fixture(scope="module")
def model():
    return random_model(VOCAB, WIDTH, heads=4)


@pytest.fixture(scope="module")
def engine(model):
    return engine_of(model)


@pytest.mark.parametrize("slide", ["half", "one"])
def test_greedy_text_far_past_the_context(model, slide):
    settings = DecodeSettings(temperature=0.0)
    engine = engine_of(model, slide=slide)
    decoder = Decoder(model=model, eos_id=None, banned=[0, 2, 3], slide=slide)
    for ids in PROMPTS:
        (expected,) = generate(decoder, [ids], settings, max_new_tokens=30)
        assert engine.call("greedy", ids, 30) == expected.ids


@pytest.mark.parametrize(("width", "alpha"), [(1, 0.0), (5, 0.6), (10, 1.0)])
def test_beams(model, engine, width, alpha):
    decoder = Decoder(model=model, eos_id=1, banned=[0, 2, 3])
    settings = BeamSettings(width=width, length_penalty=alpha, n_best=width)
    for ids in PROMPTS:
        (expected,) = beam_search(decoder, [ids], settings, max_new_tokens=12)
        beams = engine.call("beams", ids, width, 12, alpha)
        assert [beam["ids"] for beam in beams] == [beam.ids for beam in expected]
        scores = [beam.score for beam in expected]
        assert [beam["score"] for beam in beams] == pytest.approx(scores, abs=1e-4)


DECODING = st.builds(
    DecodeSettings,
    temperature=st.sampled_from([0.0, 1e-6, 0.3, 1.0, 4.0]),
    top_k=st.sampled_from([0, 1, 5, 20, VOCAB + 1]),
    top_p=st.sampled_from([1.0, 0.9, 0.5, 0.01]),
    min_p=st.sampled_from([0.0, 0.05, 0.4, 1.0]),
    eta=st.sampled_from([0.0, 0.001, 0.1, 0.5]),
    fallback_mass=st.sampled_from([0.0, 0.3, 0.8, 1.0]),
    repetition_penalty=st.sampled_from([1.0, 5.0, 50.0]),
    repetition_window=st.sampled_from([None, 1, 2, 4, 30]),
)
TEXT_IDS = st.lists(st.sampled_from([0, 1, 5, 9, 7, 22]), min_size=3, max_size=25)
U = np.linspace(0.005, 0.995, 100)


@drawn(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(settings=DECODING, ids=TEXT_IDS)
def test_the_page_draws_the_same_token_by_any_settings(model, engine, settings, ids):
    with decoding_mode(model):
        decoder = Decoder(model=model, eos_id=1, banned=[0, 2, 3])
        sampling = Sampling(decoder, [ids] * len(U), settings, 1)
        logits = sampling.session.next_logits()[0].tolist()
        sampling.u = U[:, None]
        expected = sampling.step().tolist()
    rules = decoding_rules(settings)
    assert len(rules) == len(dataclasses.fields(settings)) - 1, "the page knows all but the seed"
    rules |= {"banned": [0, 2, 3], "eos": 1}
    code = "(logits, ids, rules) => nextChances(Float32Array.from(logits), ids, rules)"
    chances = engine.call(code, logits, ids, rules)
    draw = "(chances, places) => places.map((u) => draw(chances, u))"
    assert engine.call(draw, chances, U.tolist()) == expected
    mass = sum(chances["before"][str(i)] for i in chances["candidates"])
    assert chances["cut"] == pytest.approx(1 - mass, abs=1e-9)


def test_a_head_switched_off_adds_nothing(model, engine):
    ids = [0, 5, 9, 7]
    with switched_off(model, 1, 2), decoding_mode(model):
        expected = Session(model, [ids]).next_logits()[0].numpy()
    code = "(ids) => { model.off.add('1.2'); const z = logits(ids); model.off.clear(); return z; }"
    logits = engine.call(code, ids)
    assert np.abs(np.array(logits) - expected).max() <= 1e-4 * np.abs(expected).max()
    assert engine.call("logits", ids) != logits


TRAIN = [
    'Once upon a time, Lily\'s red-haired friend said: "Hello, (big) dog!" '
    "It cost $5 = 5 + 0 <ok>. Na\u00efve caf\u00e9s. A 5-year-old and/or 3.5kg at 10:30.",
    "KING LEAR: What's the matter?\nthe KING\u2019s men \u2026 the the the time time dog dog",
]
TEXTS = [
    "", " ", "once upon a time", "Lily's dog", "LILY'S DOG", "KING lear", "the <eos> and <unk> <sos>x",
    "a\tb\nc\r\nd\x00e\x85f", "zero\u200bwidth \ufeffmark soft\u00adhyphen", "cafe\u0301s caf\u00e9s",
    "\u03a3\u039f\u03a6\u039f\u03a3 \u03a3", "\u0130stanbul", "x" * 250, "e" * 99 + "'s",
    "it's 'quoted' \u2018so\u2019 rock'n'roll's", "5.00 + 3 = 8; a|b~c^d`e $", "\U0001f600 smile \u4e2d\u6587",
    "\ud800 lone", "a  b   c ", "\u00a0\u2003spaces\u3000", "under_score\u203fd", "\u0661\u0662 \u216b \u00bd",
    '"open" "close" (in) out.', "\u0927\u0928\u094d\u092f\u0935\u093e\u0926", "What's   the\n\nmatter? ",
    "\u1e9e\u00df \u00dfa", "the\u2028time\x1ddog", "l'anniversaire de l'instituteur'n'a'b", "a 5-year-old, 3.5 kg",
    "$1,000 at 10:30, 3.a \u0663.\u0665 and/or -5 - 3", "12" * 70 + ".5"
]  # fmt: skip
KINDS = []
for punctuation, lower in itertools.product(PUNCTUATIONS, (True, False)):
    KINDS.append({"tokenizer": "words", "punctuation": punctuation, "lower_case": lower})
KINDS += [{"tokenizer": "bpe", "max_size": 300, "lower_case": lower} for lower in (True, False)]
KINDS += [{"tokenizer": "longest_match", "max_size": 120}]


@pytest.fixture(scope="module")
def context():
    context = MiniRacer()
    context.eval(bundle(with_app=False) + "let tokenizer;")
    return context


def call(context, code):
    return json.loads(context.eval(f"JSON.stringify({code})"))


@pytest.mark.parametrize(
    "kind", KINDS, ids=lambda kind: "-".join(str(value) for value in kind.values())
)
def test_ids_and_texts(context, tmp_path, kind):
    settings = VocabSettings(**({"punctuation": "drop"} | kind))
    tokenizer, _ = make_tokenizer(settings, lambda: TRAIN)
    tokenizer.save(tmp_path / "tokenizer.json")
    rule = rule_of(open_tokenizer(tmp_path / "tokenizer.json"), tmp_path / "tokenizer.json")
    context.eval(f"tokenizer = openTokenizer({json.dumps(rule)})")
    for text in [*TRAIN, *TEXTS]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # characters that no token spells
            ids = tokenizer.encode(text)
        assert call(context, f"tokenizer.encode({json.dumps(text)})") == ids, text
        if kind["tokenizer"] == "words":
            assert call(context, f"tokenizer.decode({ids})") == tokenizer.decode(ids), text


def is_old(character):
    """Whether it was in Unicode 3.2, so that no two libraries take it for different things."""
    return unicodedata.ucd_3_2_0.category(character) != "Cn"


MARKS = "aB1² ½\t\n'`‘’-‐—…/.,:_$<>\"„“«¿\u200b\u200c\u200d\u0301\ufe0f·״א་፡ﬁİς"
CHARACTERS = st.sampled_from(MARKS) | st.characters(exclude_categories=["Cn", "Cs"]).filter(is_old)


@pytest.mark.parametrize(
    "kind", KINDS, ids=lambda kind: "-".join(str(value) for value in kind.values())
)
@drawn(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(CHARACTERS, min_size=1, max_size=20), min_size=1, max_size=8))
def test_tinylm_the_saved_file_and_the_page_agree_on_drawn_texts(context, tmp_path, kind, texts):
    known = [*TRAIN, *texts[::2]]
    settings = VocabSettings(
        **({"punctuation": "drop"} | kind | {"max_size": kind.get("max_size") and 500})
    )
    tokenizer, _ = make_tokenizer(settings, lambda: known)
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    library = tokenizers.Tokenizer.from_file(str(path))
    context.eval(f"tokenizer = openTokenizer({json.dumps(rule_of(tokenizer, path))})")
    needs_all = kind["tokenizer"] == "longest_match"  # the library refuses unknown characters
    for text in known[len(TRAIN) :] if needs_all else texts:
        ids = tokenizer.encode(text)
        assert library.encode(text).ids == ids, ascii(text)
        assert call(context, f"tokenizer.encode({json.dumps(text)})") == ids, ascii(text)
        if kind["tokenizer"] == "words":
            assert call(context, f"tokenizer.decode({ids})") == tokenizer.decode(ids), ascii(text)
