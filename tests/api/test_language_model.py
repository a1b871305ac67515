"""A trained model from Python: the command's texts, probabilities that add up, own prompts of section `report`."""

import copy
import dataclasses
import functools
import math
import re
import shutil
import warnings
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from hypothesis import HealthCheck, given
from hypothesis import settings as drawn
from hypothesis import strategies as st

import tinylm
from tests.decoding.test_sampling import FILTERS, distribution
from tests.storybook.worlds import FRENCH, write_world
from tests.support.random_run import CONTEXT, make_run
from tests.support.small import random_model, words_of
from tinylm.api.language_model import load, pieces
from tinylm.api.own_texts import with_own_texts
from tinylm.base.config import InputError, load_params, read_section
from tinylm.cli import main
from tinylm.decoding.beam_search import beam_search
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.session import window_start
from tinylm.decoding.settings import BeamSettings, DecodeSettings
from tinylm.decoding.texts import banned_ids
from tinylm.evaluate.attention_maps import MAX_TOKENS
from tinylm.evaluate.scoring import token_log_probs
from tinylm.evaluate.truth import MIN_PROB
from tinylm.model.ops import Ops
from tinylm.params.presets.write import FOLDER
from tinylm.report.document import write_document
from tinylm.report.pictures import attention_pictures
from tinylm.report.settings import ReportSettings
from tinylm.run.downloaded import Downloaded
from tinylm.run.finished_run import FinishedRun
from tinylm.run.result_files import write_result
from tinylm.storybook.check import read_world
from tinylm.storybook.corpus import generate as generate_stories
from tinylm.vocab.make_tokenizer import make_tokenizer
from tinylm.vocab.settings import VocabSettings

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/python.md"
PROMPT = "the cat sat"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("run")
    make_run(made, "keep")
    return made


@pytest.fixture
def lm(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return tinylm.load("models")


def with_attribute(lm, name, value):
    setattr(lm, name, value)
    return lm


def ids_of(lm, text):
    return [lm.tokenizer.sos_id, *lm.tokenizer.encode(text)]


def test_a_text_has_its_tokens(lm):
    text = lm.generate(PROMPT, max_tokens=25, temperature=0)
    assert text == lm.tokenizer.decode([*text.prompt_ids, *text.new_ids])
    assert text.prompt_ids == ids_of(lm, PROMPT)
    assert text.finished == (text.new_ids[-1] == lm.tokenizer.eos_id)
    assert (text.log_probs, text.log_prob, text.score) == (None, None, None)


def test_a_prompts_unknown_words_stay_as_they_were_written(lm):
    prompt = "the zebra sat <unk> the yak"
    with warnings.catch_warnings(action="ignore"):  # unknown words
        text = lm.generate(prompt, max_tokens=3)
        streamed = "".join(lm.stream(prompt, max_tokens=3))
        (best,) = lm.beams(prompt, 2, max_tokens=3, n_best=1)
    written = " ".join(lm.tokenizer.split(prompt))
    assert "zebra" in written
    for one in (text, streamed, best):
        assert one.startswith(written)


def test_a_stream_leaves_the_callers_mode_alone(lm):
    lm.model.train()
    stream = lm.stream(PROMPT, max_tokens=30)
    assert next(stream) == PROMPT
    next(stream)
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()
    assert lm.model.training
    lm.model.eval()


@pytest.mark.parametrize("slide", ["half", "one"])
def test_past_the_context_the_window_moves_as_the_model_says(lm, slide):
    lm.slide = slide
    prompt = "the cat sat " * CONTEXT
    with pytest.warns(UserWarning, match="tokens"):
        text = lm.generate(prompt, max_tokens=5, temperature=0, log_probs=True)
    expected = token_log_probs(
        lm.model, [*text.prompt_ids, *text.new_ids], len(text.prompt_ids), slide
    )
    assert text.log_probs == pytest.approx(expected.tolist(), abs=1e-5)
    shown = text.prompt_ids[window_start(len(text.prompt_ids), CONTEXT, slide) :]
    with torch.no_grad():
        likeliest = lm.model(torch.tensor([shown]))[0, -1].double().softmax(-1).max()
    with pytest.warns(UserWarning, match="tokens"):
        assert lm.next_words(prompt, 1)[0].probability == pytest.approx(float(likeliest), abs=1e-6)


def test_beams_are_those_of_the_search_best_first(lm):
    texts = lm.beams(PROMPT, 4, max_tokens=9, log_probs=True)
    decoder = Decoder(model=lm.model, eos_id=lm.tokenizer.eos_id, banned=banned_ids(lm.tokenizer))
    settings = BeamSettings(width=4, length_penalty=lm.length_penalty, n_best=4)
    (expected,) = beam_search(decoder, [ids_of(lm, PROMPT)], settings, max_new_tokens=9)
    assert [text.new_ids for text in texts] == [one.ids for one in expected]
    scores = [one.score for one in expected]
    assert [text.score for text in texts] == pytest.approx(scores, rel=1e-5)
    log_probs = [one.log_prob for one in expected]
    assert [text.log_prob for text in texts] == pytest.approx(log_probs, abs=1e-4)
    assert len(lm.beams(PROMPT, 4, n_best=2, max_tokens=9)) == 2


def test_next_words_are_the_likeliest_and_the_rest_makes_one(lm):
    words = lm.next_words(PROMPT, 5)
    with torch.no_grad():
        expected = lm.model(torch.tensor([ids_of(lm, PROMPT)]))[0, -1].double().softmax(-1)
    likeliest = expected.topk(5).values.tolist()
    assert [word.probability for word in words] == pytest.approx(likeliest, abs=1e-6)
    assert words[0].word == lm.tokenizer.tokens[int(expected.argmax())]
    assert sum(word.probability for word in words) + words.rest == pytest.approx(1.0)
    assert len(lm.next_words(PROMPT, 10**6)) == lm.model.vocab_size


def test_attention_has_names_rows_that_add_up_and_a_plot(lm):
    seen = lm.attention(PROMPT)
    assert seen.words == ["<sos>", "the", "cat", "sat"]
    assert seen.weights.shape == (2, 3, 4, 4)
    np.testing.assert_allclose(seen.weights.sum(-1), 1.0, atol=1e-5)
    assert seen.next == lm.next_words(PROMPT, 1)[0]
    titles = [text.get_text() for text in seen.plot(layer=2).axes[0].texts]
    assert titles == [f"layer 2, head {head}" for head in (1, 2, 3)]
    assert seen._repr_png_().startswith(b"\x89PNG")
    with pytest.warns(UserWarning, match=str(CONTEXT)):
        assert len(lm.attention("the cat " * 40).words) == CONTEXT


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda lm: lm.generate(PROMPT, temperature=-1), "decode.temperature"),
        (lambda lm: lm.generate(PROMPT, heat=1), "heat"),
        (lambda lm: lm.log_prob(" \n", given="the"), "log_prob"),
        (lambda lm: lm.perplexity([]), "perplexity"),
        (lambda lm: lm.attention(PROMPT).plot(layer=3), "layer"),
        (lambda lm: tinylm.load("nowhere"), "nowhere"),
        (lambda lm: tinylm.load(epoch=7), "epoch 7"),
        (lambda lm: lm.next_words([PROMPT]), "a text"),
        (lambda lm: lm.generate([PROMPT, None]), "a text"),
        (lambda lm: with_attribute(lm, "slide", "whole").log_prob(PROMPT), "slide"),
        (lambda lm: with_attribute(lm, "step", "fast").generate(PROMPT), "step"),
    ],
)
def test_wrong_values_are_named(lm, call, named):
    with pytest.raises(InputError, match=named):
        call(lm)


WHOLE_NUMBERS = [  # (method, argument, its least value)
    ("generate", "max_tokens", 0),
    ("stream", "max_tokens", 0),
    ("beams", "max_tokens", 0),
    ("beams", "width", 1),
    ("beams", "n_best", 1),
    ("next_words", "count", 1),
    ("attention", "max_tokens", 1),
]


@drawn(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    argument=st.sampled_from(WHOLE_NUMBERS),
    value=st.integers(-3, 2) | st.sampled_from([True, False, 1.0, 2.5, math.nan, "2", [1], 99]),
)
def test_whole_numbers_are_in_their_range(lm, argument, value):
    """The largest one: no width of beam search exceeds the vocabulary, and no number of its results the width."""
    method, name, least = argument
    is_whole = type(value) is int
    is_legal = is_whole and value >= least and (value < 99 or name in ("max_tokens", "count"))
    with nullcontext() if is_legal else pytest.raises(InputError, match=name):
        found = getattr(lm, method)(PROMPT, **{name: value})
        list(found) if method == "stream" else found


def test_numbers_may_be_those_of_numpy(lm):
    expected = lm.generate(PROMPT, max_tokens=6, temperature=0.5, top_k=4, seed=3)
    settings = {"temperature": np.float64(0.5), "top_k": np.int64(4), "seed": np.int32(3)}
    assert lm.generate(PROMPT, max_tokens=np.int64(6), **settings) == expected


@pytest.mark.parametrize("form", ["transformers", "tinylm"])
def test_an_export_is_loaded_from_anywhere(lm, tmp_path, monkeypatch, capsys, form):
    assert main(["export", str(tmp_path / "out"), "--format", form]) == 0
    expected = lm.generate(PROMPT, max_tokens=12, temperature=0, repetition_penalty=1.0)
    monkeypatch.chdir(tmp_path)
    assert tinylm.load("out").generate(PROMPT, max_tokens=12, temperature=0) == expected
    capsys.readouterr()
    assert main(["generate", PROMPT, "--max-tokens", "12", "--greedy", "--models", "out"]) == 0
    assert capsys.readouterr().out == f"{expected}\n"


def test_the_page_s_code_runs(folder, tmp_path, monkeypatch, capsys):
    shutil.copytree(folder, tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run")
    blocks = re.findall(
        r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # this vocabulary has few of the words
        exec("\n".join(blocks), {})
    assert capsys.readouterr().out


PROMPTS = ("the cat", "the zebra said", "the cat")
SETTINGS = read_section(load_params(FOLDER / "storybook.yaml"), "report", ReportSettings)


def test_prompts_are_continued_as_tinylm_generate_does(tmp_path, monkeypatch):
    make_run(tmp_path, "drop")
    monkeypatch.chdir(tmp_path)
    params = load_params()
    params["evaluate"]["new_tokens"] = 9
    run = with_own_texts(FinishedRun(params=params), dataclasses.replace(SETTINGS, prompts=PROMPTS))
    with pytest.warns(UserWarning, match="zebra"):
        expected = load("models").generate(list(PROMPTS), max_tokens=9)
    texts = run.own_texts
    assert [text.prompt for text in texts] == list(PROMPTS)
    tokenizer = load("models").tokenizer
    continuations = [tokenizer.decode(text.new_ids) for text in expected]
    assert [text.continuation for text in texts] == continuations
    assert [text.unknown for text in texts] == [[], ["zebra"], []]
    assert "*After “the zebra said”: " in write_document(run, SETTINGS, {})


@pytest.mark.parametrize(("words", "cut"), [(8, ""), (16, ""), (17, " (first 17 of 18 tokens)")])
def test_a_sentence_that_is_cut_says_so_where_it_is_shown(tmp_path, monkeypatch, words, cut):
    """With <sos>, 16 words are as many tokens as the context."""
    make_run(tmp_path, "drop")
    monkeypatch.chdir(tmp_path)
    sentence = " ".join(["the", "cat"] * 9)[: 4 * words].strip()
    chosen = dataclasses.replace(SETTINGS, sentences=(sentence,))
    run = with_own_texts(FinishedRun(params=load_params()), chosen)
    (seen,) = run.own_sentences
    assert len(seen.words) + seen.left_out == words + 1
    shown = load("models").attention(" ".join(seen.words[1:]))
    assert (seen.words, seen.next) == (shown.words, shown.next.word)
    text = write_document(run, chosen, attention_pictures(run))
    assert f"Your sentence{cut}: {' '.join(seen.words)}".replace("<", "&lt;") in text


def test_the_parameters_name_how_many_tokens_of_a_sentence_are_drawn():
    comment = f"# texts whose attention maps are drawn, for their first {MAX_TOKENS} tokens\n"
    assert comment in (FOLDER / "storybook.yaml").read_text("utf-8")


TEXTS = [
    "The 😀 cat sat on the mat.\nThe cat ran, é!",
    "THE DOG ran; the dog's cat sat. 日本 a😀c日",
]


@pytest.mark.parametrize(("kind", "size"), [("bpe", 270), ("longest_match", 60)])
def test_a_character_of_several_tokens_is_shown_when_it_is_whole(kind, size):
    settings = VocabSettings(tokenizer=kind, max_size=size)
    tokenizer, _ = make_tokenizer(settings, lambda: TEXTS)
    ids = tokenizer.encode_story("a😀c日")
    parts = list(pieces(tokenizer, (ids[:end] for end in range(1, len(ids) + 1))))
    assert "\ufffd" not in "".join(parts)
    assert "".join(parts) == "a😀c日"
    if kind == "bpe":
        assert list(pieces(tokenizer, [ids[:-2]])) == ["a😀c", "\ufffd"]


@pytest.fixture
def storyteller():
    """A random model over the words of two stories of the storybook."""
    train, _ = generate_stories(2, 1, 1)
    tokenizer = words_of([story.text for story in train])
    model = random_model(len(tokenizer), 16, context=24)
    return tinylm.LanguageModel(model, tokenizer, DecodeSettings())


def test_truth_is_that_of_the_world_of_the_model(tmp_path):
    folder = write_world(tmp_path / "welt", FRENCH)
    world = read_world(folder)
    tokenizer = words_of([" ".join(sorted(world.vocabulary()))])
    model = tinylm.LanguageModel(
        random_model(len(tokenizer), 16, context=24), tokenizer, DecodeSettings()
    )
    with pytest.raises(InputError, match="expected a model of the storybook"):
        model.truth("cet ours")
    model.world = folder
    assert set(model.truth("cet")["true_next"].iloc[-1]) == {"ours", "âne"}
    model.world_digest = world.digest()
    assert set(model.truth("cet")["true_next"].iloc[-1]) == {"ours", "âne"}
    model.world_digest = "of other files"
    with pytest.raises(InputError, match="got changed ones"):
        model.truth("cet")
    model.world = tmp_path / "gone"
    with pytest.raises(InputError, match=r"got no folder .*gone"):
        model.truth("cet")


def test_only_a_model_of_generated_stories_is_compared_with_its_generator(storyteller):
    """Though all its words are the storybook's."""
    storyteller.source = "local"
    with pytest.raises(InputError, match=r"got one whose data\.source is local"):
        storyteller.truth("once upon a time")


def test_a_loaded_model_knows_which_world_wrote_its_stories(folder, tmp_path, monkeypatch):
    for name in ("models", "data"):
        shutil.copytree(folder / name, tmp_path / name)
    params = load_params(folder / "params.yaml")
    params["data"] |= {"source": "world", "path": "welt"}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params), "utf-8")
    monkeypatch.chdir(tmp_path)
    noted = tmp_path / "data/figures/download.json"
    noted.unlink(missing_ok=True)
    assert (tinylm.load().world, tinylm.load().world_digest) == ("welt", None)
    corpus = Downloaded(
        source="world", path="welt", world="d1", evaluation_split="", splits={}, dropped={}
    )
    write_result(noted, corpus)
    assert tinylm.load().world_digest == "d1"
    write_result(noted, dataclasses.replace(corpus, source="local", world=None))
    loaded = tinylm.load()
    assert (loaded.source, loaded.world, loaded.world_digest) == ("local", None, None)
    write_result(noted, corpus)
    monkeypatch.chdir(tmp_path.parent)
    assert tinylm.load(tmp_path / "models").world == str(tmp_path / "welt")


def test_truth_says_what_it_leaves_out(storyteller):
    story = next(iter(generate_stories(1, 1, 9)[0])).text
    with pytest.warns(UserWarning, match="only the first 24 are shown") as caught:
        table = storyteller.truth(story)
    assert len(table) == 24
    assert "<unk>" in str(caught[0].message)
    assert {warning.filename for warning in caught} == {__file__}


CALLS = {
    "generate": lambda lm, text: lm.generate(text, max_tokens=1),
    "stream": lambda lm, text: list(lm.stream(text, max_tokens=1)),
    "beams": lambda lm, text: lm.beams(text, 2, max_tokens=1),
    "next_words": lambda lm, text: lm.next_words(text),
    "log_prob": lambda lm, text: lm.log_prob(text),
    "perplexity": lambda lm, text: lm.perplexity(text),
    "attention": lambda lm, text: lm.attention(text),
    "truth": lambda lm, text: lm.truth(text),
}


def test_every_method_is_among_the_calls():
    methods = {name for name in vars(tinylm.LanguageModel) if not name.startswith("_")}
    assert methods == set(CALLS)


@pytest.mark.parametrize("number", [math.nan, math.inf])
@pytest.mark.parametrize("name", CALLS)
def test_every_method_refuses_logits_that_are_not_finite(storyteller, name, number):
    beginning = " ".join(storyteller.tokenizer.tokens[4:8])
    with torch.no_grad():
        storyteller.model.final_norm.gain[0] = number
    with pytest.raises(InputError, match="not finite: training diverged"):
        CALLS[name](storyteller, beginning)


@pytest.mark.parametrize("name", CALLS)
def test_every_method_takes_a_token_that_is_ruled_out(storyteller, name):
    beginning = " ".join(storyteller.tokenizer.tokens[4:8])
    logits = storyteller.model.logits

    def without_the_last(hidden):
        return logits(hidden).index_fill(
            -1, torch.tensor(len(storyteller.tokenizer) - 1), -math.inf
        )

    storyteller.model.logits = without_the_last
    storyteller.step = "plain"
    CALLS[name](storyteller, beginning)


@drawn(max_examples=25, suppress_health_check=list(HealthCheck))
@given(chosen=FILTERS)
def test_truth_shows_what_the_settings_draw_from(storyteller, chosen):
    storyteller.settings = chosen
    tokens = storyteller.tokenizer.tokens
    beginning = " ".join(tokens[4:8])
    assert "drawn_next" not in storyteller.truth(beginning)
    table = storyteller.truth(beginning, decode=True)
    found = table["drawn_next"]
    with torch.no_grad():
        rows = storyteller.model(torch.tensor([[0, 4, 5, 6, 7][: len(found)]]))[0]
    expected = [distribution(row, chosen) for row in rows.tolist()]
    assert table["drawn"].tolist() == [len(row) for row in expected]
    assert (table["possible"] > 0).all()
    for next_words, row in zip(found, expected, strict=True):
        likely = {tokens[i]: p for i, p in row.items() if p >= MIN_PROB}
        assert next_words == pytest.approx(likely)
        assert list(next_words.values()) == sorted(next_words.values(), reverse=True)


@pytest.mark.parametrize("call", ["perplexity", "generate"])
@pytest.mark.parametrize(
    "table", [pd.DataFrame({"story": ["a cat"]}), {"story": "a cat"}], ids=["table", "dict"]
)
def test_a_table_is_not_its_column_names(lm, call, table):
    with pytest.raises(InputError, match="name the column"):
        getattr(lm, call)(table)


def test_warnings_point_to_the_line_that_called(lm):
    for call in (lm.log_prob, lm.perplexity, lm.attention, lm.generate, lm.next_words):
        for _ in range(2):
            with pytest.warns(UserWarning, match="zzz") as caught:
                call("the zzz")
            assert [warning.filename for warning in caught] == [__file__]


def halved(name):
    """An operation whose result is halved."""
    usual = getattr(Ops, name)

    def mine(self, *arguments, **options):
        return 0.5 * usual(self, *arguments, **options)

    return mine


OPERATIONS = ("attention", "linear", "norm", "add_dropout")


@drawn(max_examples=20, suppress_health_check=list(HealthCheck))
@given(
    names=st.sets(st.sampled_from(OPERATIONS), min_size=1),
    block=st.sampled_from([None, 0, 1]),
)
def test_replaced_operations_serve_every_method(lm, names, block):
    """Operations of `Ops`, or of a single block."""
    before = lm.generate(PROMPT, max_tokens=8, temperature=0, log_probs=True)
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            mine = halved(name)
            if block is None:
                patch.setattr(Ops, name, mine)
                continue
            for part in lm.model.blocks[block].modules():
                if hasattr(part, "ops"):
                    own = copy.copy(part.ops)
                    setattr(own, name, functools.partial(mine, own))
                    patch.setattr(part, "ops", own)
        text = lm.generate(PROMPT, max_tokens=8, temperature=0, log_probs=True)
        (likeliest,) = lm.next_words(PROMPT, 1)
        (beam,) = lm.beams(PROMPT, 1, max_tokens=8, n_best=1)
        given_prompt = lm.log_prob(lm.tokenizer.decode(text.new_ids), given=PROMPT)
    assert text.log_probs != pytest.approx(before.log_probs)
    assert likeliest.probability == pytest.approx(np.exp(text.log_probs[0]), rel=1e-4)
    if not text.finished:
        assert sum(text.log_probs) == pytest.approx(given_prompt, rel=1e-4)
    assert beam.new_ids == text.new_ids
