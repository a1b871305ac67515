import dataclasses
import json
import math

import numpy as np
import pytest
import torch

from tests.support.small import EVALUATE
from tinylm.evaluate.baselines import baselines, count_ngrams
from tinylm.evaluate.bits_per_byte import Spelling
from tinylm.evaluate.side_model import SideModel
from tinylm.evaluate.split_score import score_split
from tinylm.model.transformer import TinyLM
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.token_store import TokenStore, write_store
from tinylm.vocab.tokenizer import make_tokenizer

SETTINGS = EVALUATE


def plain_nats(model, windows):
    """Loss of each window by log-softmax, one token at a time."""
    total = 0.0
    for window in windows:
        scores = torch.log_softmax(model(torch.tensor([window[:-1]])).detach()[0].double(), -1)
        total -= float(sum(scores[i, token] for i, token in enumerate(window[1:])))
    return total


@pytest.mark.parametrize("layout", ["stories", "stream"])
def test_perplexity_scores_every_token_once_in_windows_of_the_context(corpus, model, layout):
    folder, tokenizer = corpus
    store, context = TokenStore(folder / "tokens", "evaluation"), model.settings.context
    texts = (
        [store.story(i).tolist() for i in range(len(store))]
        if layout == "stories"
        else [store.ids.tolist()]
    )
    windows = [
        text[s : s + context + 1] for text in texts for s in range(0, len(text) - 1, context)
    ]
    found = score_split(model, tokenizer, store, layout, folder / "stories", SETTINGS).figures
    nats = plain_nats(model, windows)
    tokens = sum(len(text) - 1 for text in texts)
    assert found["tokens"] == tokens
    assert found["perplexity"] == pytest.approx(math.exp(nats / tokens), rel=1e-5)
    low, high = found["perplexity_interval"]
    assert low <= found["perplexity"] <= high
    assert str(context) in found["protocol"]


def test_bits_per_byte_pays_for_unknown_words(corpus, model):
    folder, tokenizer = corpus
    store = TokenStore(folder / "tokens", "evaluation")
    found = score_split(model, tokenizer, store, "stories", folder / "stories", SETTINGS).figures
    spelling = Spelling(tokenizer.tokens[4:])
    spelt = sum(spelling.nats(word) for word in ("then", "zebra", "to"))
    lines = (folder / "stories" / "evaluation.jsonl").read_text().splitlines()
    n_bytes = sum(len(line) - len('{"text": ""}') for line in lines)
    assert found["unknown_share"] == pytest.approx(3 / 32)
    assert found["bytes"] == n_bytes
    nats = found["nats_per_token"] * found["tokens"]
    assert found["bits_per_byte"] == pytest.approx((nats + spelt) / math.log(2) / n_bytes)


STORIES = ["The dog ran home.\nÉlan, café!", "A cat saw the dog.", "the bird"]


@pytest.fixture
def subwords(tmp_path, model):
    """(folder, tokenizer, model) of one kind, whose evaluation stories are the training stories."""

    def make(kind, texts=STORIES, **settings):
        vocab = VocabSettings(
            tokenizer=kind,
            lower_case=False,
            punctuation="keep",
            max_size=270 if kind == "bpe" else 40,
        )
        tokenizer, _ = make_tokenizer(dataclasses.replace(vocab, **settings), lambda: texts)
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        (folder / "stories").mkdir(parents=True)
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        for split in ("train", "evaluation"):
            (folder / "stories" / f"{split}.jsonl").write_text(lines)
        ids = [tokenizer.encode_story(text) for text in texts]
        write_store(folder / "tokens", "evaluation", ids, len(tokenizer))
        torch.manual_seed(4)
        other = TinyLM(model.settings, torch.randn(len(tokenizer), 11)).eval()
        return folder, tokenizer, other

    return make


@pytest.mark.parametrize("kind", ["bpe", "longest_match", "words"])
@pytest.mark.parametrize("own_stories", [True, False])
def test_bits_per_byte_count_the_bytes_of_the_text_whatever_its_tokens(subwords, kind, own_stories):
    folder, tokenizer, model = subwords(kind)
    if not own_stories:  # a part of the training stream has none
        (folder / "stories" / "evaluation.jsonl").write_text("")
    found = score_split(
        model,
        tokenizer,
        TokenStore(folder / "tokens", "evaluation"),
        "stream",
        folder / "stories",
        SETTINGS,
    ).figures
    more = {"bpe": 0, "longest_match": -1, "words": 4}[
        kind
    ]  # line ends vanish; words and marks stand apart
    assert found["bytes"] == sum(len(text.encode()) for text in STORIES) + more
    assert found["unknown_share"] == 0
    assert found["bits_per_byte"] == pytest.approx(
        found["nats_per_token"] * found["tokens"] / math.log(2) / found["bytes"]
    )


@pytest.mark.parametrize("layout", ["stream", "stories", "windows"])
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("bpe", {}),
        ("words", {}),
        ("words", {"lower_case": True, "punctuation": "drop", "max_size": 5}),
    ],
)
def test_raw_bits_per_byte_count_the_same_bytes_whatever_the_tokens(
    subwords, kind, settings, layout
):
    folder, tokenizer, model = subwords(kind, STORIES * 2, **settings)
    store = TokenStore(folder / "tokens", "evaluation")
    scored = score_split(model, tokenizer, store, layout, folder / "stories", SETTINGS)
    found = scored.figures
    assert found["raw_bytes"] == 2 * sum(len(text.encode()) for text in STORIES)
    if kind == "bpe":
        assert found["raw_bits_per_byte"] == pytest.approx(found["bits_per_byte"], rel=1e-12)
        assert found["raw_side_bits_per_byte"] == 0
    else:
        side = SideModel(STORIES * 2, tokenizer.split)
        dropped = 2 * sum(map(side.nats, STORIES)) / math.log(2)
        bits = found["bits_per_byte"] * found["bytes"] + dropped
        assert found["raw_bits_per_byte"] == pytest.approx(bits / found["raw_bytes"], rel=1e-9)
        assert found["raw_side_bits_per_byte"] == pytest.approx(dropped / found["raw_bytes"])
    bits = sum(row["raw_bits"] for row in scored.stories)
    assert bits == pytest.approx(found["raw_bits_per_byte"] * found["raw_bytes"])


def test_raw_bits_per_byte_are_refused_where_what_is_dropped_has_no_price(subwords):
    folder, tokenizer, model = subwords("longest_match")
    store = TokenStore(folder / "tokens", "evaluation")
    scored = score_split(model, tokenizer, store, "stream", folder / "stories", SETTINGS)
    assert scored.figures["raw_bits_per_byte"] is None
    assert all(math.isnan(row["raw_bits"]) for row in scored.stories)


def test_words_that_nobody_can_name_have_no_price(corpus, model):
    folder, tokenizer = corpus
    store = TokenStore(folder / "tokens", "evaluation")
    (folder / "stories" / "evaluation.jsonl").write_text("")
    found = score_split(model, tokenizer, store, "stream", folder / "stories", SETTINGS).figures
    assert found["bits_per_byte"] is None is found["raw_bits_per_byte"]
    assert found["unknown_share"] == pytest.approx(3 / 32)
    known = [tokenizer.encode_story("the dog saw a bird"), tokenizer.encode_story("a cat")]
    write_store(folder / "tokens", "known", known, len(tokenizer))
    found = score_split(
        model,
        tokenizer,
        TokenStore(folder / "tokens", "known"),
        "stream",
        folder / "stories",
        SETTINGS,
    ).figures
    assert found["bytes"] == len("the dog saw a bird" + "a cat")
    assert found["bits_per_byte"] > 0


def test_windows_score_each_token_in_each_window_but_pay_its_bytes_once(subwords):
    folder, tokenizer, model = subwords("longest_match", STORIES * 2)
    store, context = TokenStore(folder / "tokens", "evaluation"), model.settings.context
    ids = store.ids.tolist()
    windows = [ids[start : start + context + 1] for start in range(len(ids) - context)]
    found = score_split(model, tokenizer, store, "windows", folder / "stories", SETTINGS).figures
    assert len(windows) > 2 * context
    assert found["tokens"] == len(windows) * context
    assert found["nats_per_token"] == pytest.approx(
        plain_nats(model, windows) / found["tokens"], rel=1e-5
    )
    low, high = found["perplexity_interval"]
    assert low < found["perplexity"] < high
    once = score_split(model, tokenizer, store, "stream", folder / "stories", SETTINGS).figures
    assert found["bits_per_byte"] == once["bits_per_byte"]
    assert found["once"] == {
        key: once[key] for key in ("perplexity", "perplexity_interval", "nats_per_token", "tokens")
    }
    bigrams = count_ngrams(store, "windows", 2)
    counted = baselines(store, "windows", bigrams, bigrams, None)
    assert found["once"]["tokens"] == counted["kneser_ney"]["tokens"]
    assert "once" not in once


@pytest.mark.parametrize("layout", ["stories", "stream", "windows"])
def test_each_story_has_the_loss_of_its_own_tokens(subwords, layout):
    folder, tokenizer, model = subwords("longest_match", STORIES * 2)
    store, context = TokenStore(folder / "tokens", "evaluation"), model.settings.context
    found = score_split(model, tokenizer, store, layout, folder / "stories", SETTINGS)
    assert [row["story"] for row in found.stories] == list(range(6))
    texts = (
        [store.story(i).tolist() for i in range(len(store))]
        if layout == "stories"
        else [store.ids.tolist()]
    )
    step = 1 if layout == "windows" else context
    nats, tokens, first = [0.0] * 6, [0] * 6, 0
    for text in texts:
        for start in range(0, len(text) - context if layout == "windows" else len(text) - 1, step):
            window = text[start : start + context + 1]
            scores = torch.log_softmax(model(torch.tensor([window[:-1]])).detach()[0].double(), -1)
            for place, token in enumerate(window[1:]):
                story = int(np.searchsorted(store.offsets, first + start + place + 1, "right")) - 1
                nats[story] -= float(scores[place, token])
                tokens[story] += 1
        first += len(text)
    assert [row["tokens"] for row in found.stories] == tokens
    assert [row["nats"] for row in found.stories] == pytest.approx(nats, rel=1e-5)
    assert sum(tokens) == found.figures["tokens"]
    total = found.figures["nats_per_token"] * found.figures["tokens"]
    assert sum(row["nats"] for row in found.stories) == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("layout", ["stories", "windows"])
def test_bits_and_bytes_of_the_stories_add_up_to_bits_per_byte(corpus, model, layout):
    folder, tokenizer = corpus
    store = TokenStore(folder / "tokens", "evaluation")
    found = score_split(model, tokenizer, store, layout, folder / "stories", SETTINGS)
    bits, n_bytes = (sum(row[key] for row in found.stories) for key in ("bits", "bytes"))
    assert n_bytes == found.figures["bytes"]
    assert bits / n_bytes == pytest.approx(found.figures["bits_per_byte"], rel=1e-12)
    spelt = [row["bits"] * math.log(2) - row["nats"] for row in found.stories]
    if layout == "stories":  # then, zebra and to stand in the first and the third
        assert [value > 1 for value in spelt] == [True, False, True, False]
        assert spelt[1] == pytest.approx(0, abs=1e-9)


def test_bits_of_words_that_nobody_can_name_are_not_known(corpus, model):
    folder, tokenizer = corpus
    (folder / "stories" / "evaluation.jsonl").write_text("")
    store = TokenStore(folder / "tokens", "evaluation")
    found = score_split(model, tokenizer, store, "stream", folder / "stories", SETTINGS)
    assert all(math.isnan(row["bits"]) for row in found.stories)
    assert len(found.stories) == 4


def test_stories_are_known_by_their_text_and_by_their_tokens(subwords):
    def ids(kind, texts, key, **settings):
        folder, tokenizer, model = subwords(kind, texts, **settings)
        store = TokenStore(folder / "tokens", "evaluation")
        rows = score_split(model, tokenizer, store, "stream", folder / "stories", SETTINGS).stories
        return [row[key] for row in rows]

    texts = [*STORIES, STORIES[0]]
    assert ids("bpe", texts, "text_id") == ids("words", texts, "text_id")
    assert len(set(ids("longest_match", texts, "text_id"))) == 3
    tokens = ids("words", texts, "tokens_id", lower_case=True)
    assert tokens[0] == tokens[3] != tokens[1]
