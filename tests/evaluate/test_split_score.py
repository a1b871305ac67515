"""Log-probabilities, loss, bits per byte and story rows of a split, against log-softmax one window at a time."""

import dataclasses
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support.folders import write_stories
from tests.support.small import EVALUATE
from tests.support.stages import read
from tinylm.base import paths
from tinylm.base.files import write_json
from tinylm.evaluate.intervals import bootstrap_interval, pooled_perplexity
from tinylm.evaluate.measurement import measure_loss
from tinylm.evaluate.scoring import perplexity, token_log_probs
from tinylm.evaluate.settings import RESAMPLES, SEED
from tinylm.evaluate.split_score import score_split
from tinylm.evaluate.trained_run import load_trained_run
from tinylm.model.transformer import TinyLM
from tinylm.text.stories import HELD_OUT_IS_EVALUATION, NO_OFFICIAL_EVALUATION
from tinylm.vocab.make_tokenizer import make_tokenizer
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.token_store import TokenStore, write_store

STORIES = ["The dog ran home.\nÉlan, café!", "A cat saw the dog.", "the bird"]
SIX = [*STORIES, "A dog saw the cat.", "the home", STORIES[0]]  # five different ones


def score(folder, tokenizer, model, layout="stream", split="evaluation"):
    store = TokenStore(folder / "tokens", split)
    loss, table, _ = score_split(model, tokenizer, store, layout, folder / "stories")
    return loss, table


def windows(store, layout, context):
    """(offset in the stream, ids) of each row that a layout scores."""
    ids = store.ids.tolist()
    starts = range(len(ids) - context) if layout == "windows" else range(0, len(ids) - 1, context)
    return [(start, ids[start : start + context + 1]) for start in starts]


def token_nats(model, store, layout):
    """(offset, nats) of each scored token by log-softmax."""
    result = []
    for first, ids in windows(store, layout, model.settings.context):
        log_probs = torch.log_softmax(model(torch.tensor([ids[:-1]])).detach()[0].double(), -1)
        for i, token in enumerate(ids[1:]):
            result.append((first + i + 1, -float(log_probs[i, token])))
    return result


@pytest.fixture
def subwords(tmp_path, model):
    """(folder, tokenizer, model) of one kind, whose evaluation stories are the train stories."""

    def make(kind, texts=STORIES, **settings):
        size = 270 if kind == "bpe" else 40
        vocab = VocabSettings(tokenizer=kind, lower_case=False, punctuation="keep", max_size=size)
        tokenizer, _ = make_tokenizer(dataclasses.replace(vocab, **settings), lambda: texts)
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        write_stories(folder / "stories/evaluation.jsonl", texts)
        ids = [tokenizer.encode_story(text) for text in texts]
        write_store(folder / "tokens", "evaluation", ids, len(tokenizer))
        torch.manual_seed(4)
        return folder, tokenizer, TinyLM(model.settings, torch.randn(len(tokenizer), 11)).eval()

    return make


def test_with_few_texts_overlapping_windows_are_resampled_in_blocks_of_a_context(subwords):
    folder, tokenizer, model = subwords("bpe", SIX[:2])
    store = TokenStore(folder / "tokens", "evaluation")
    context = model.settings.context
    loss, _ = score(folder, tokenizer, model, "windows")
    nats = [value for _, value in token_nats(model, store, "windows")]  # window after window
    rows = np.array([(sum(nats[i : i + context]), context) for i in range(0, len(nats), context)])
    blocks = np.array([rows[i : i + context].sum(0) for i in range(0, len(rows), context)])
    interval = bootstrap_interval(blocks, pooled_perplexity, RESAMPLES, SEED)
    assert loss.perplexity_interval == pytest.approx(interval)


@pytest.mark.parametrize("layout", ["stream", "windows"])
def test_split_and_stories_have_the_loss_of_their_tokens(subwords, layout):
    folder, tokenizer, model = subwords("bpe", SIX)
    store = TokenStore(folder / "tokens", "evaluation")
    loss, table = score(folder, tokenizer, model, layout)
    expected = token_nats(model, store, layout)
    total = sum(nats for _, nats in expected)
    assert loss.tokens == len(expected)
    assert loss.perplexity == pytest.approx(math.exp(total / len(expected)), rel=1e-5)
    rows = table[["nats", "tokens"]].to_numpy(float)  # of stories: rows of one are not independent
    assert (loss.stories, loss.different_stories) == (6, 5)
    rows = np.vstack([rows[0] + rows[5], rows[1:5]])  # nor are equal stories
    interval = bootstrap_interval(rows, pooled_perplexity, RESAMPLES, SEED)
    assert loss.perplexity_interval == pytest.approx(interval)
    nats = np.zeros(6)
    tokens = [0] * 6
    for offset, value in expected:
        story = int(np.searchsorted(store.offsets, offset, "right")) - 1
        nats[story] += value
        tokens[story] += 1
    if layout == "windows":  # which are scored once as a stream
        stream = score(folder, tokenizer, model, "stream")[0]
        assert loss.scored_once.perplexity == stream.perplexity
        assert loss.raw_bits_per_byte == stream.raw_bits_per_byte
    assert table["tokens"].tolist() == tokens
    assert table["nats"].tolist() == pytest.approx(nats.tolist(), rel=1e-5)


@pytest.mark.parametrize(
    ("kind", "settings", "is_lossless"),
    [
        ("bpe", {}, True),  # the only one whose tokens spell the raw text
        ("bpe", {"lower_case": True}, False),
        ("longest_match", {}, False),  # drops line ends
        ("words", {}, False),  # words and marks stand apart
    ],
)
def test_bits_per_byte_are_those_of_a_lossless_text(subwords, kind, settings, is_lossless):
    folder, tokenizer, model = subwords(kind, **settings)
    loss, table = score(folder, tokenizer, model)
    raw = sum(len(text.encode()) for text in STORIES)
    assert loss.raw_bytes == table["raw_bytes"].sum() == raw
    if is_lossless:
        bits = loss.nats_per_token * loss.tokens / math.log(2)
        assert loss.raw_bits_per_byte == pytest.approx(bits / raw)
        assert table["raw_bits"].sum() == pytest.approx(bits)
    else:
        assert loss.raw_bits_per_byte is None
        assert table["raw_bits"].isna().all()
    (folder / "stories" / "evaluation.jsonl").write_text("")  # as of a part of the training stream
    assert score(folder, tokenizer, model)[0].raw_bits_per_byte is None


def test_stories_are_named_by_their_text_and_by_their_tokens(subwords):
    def ids(kind, texts, key, **settings):
        return score(*subwords(kind, texts, **settings))[1][key].tolist()

    texts = [*STORIES, STORIES[0]]
    assert ids("bpe", texts, "text_id") == ids("words", texts, "text_id")
    assert len(set(ids("longest_match", texts, "text_id"))) == 3
    tokens = ids("words", texts, "tokens_id", lower_case=True)
    assert tokens[0] == tokens[3] != tokens[1]


def test_perplexity_of_a_fair_choice_is_its_size():
    assert perplexity(7 * math.log(5), 7) == pytest.approx(5)
    assert perplexity(1e6, 1) == math.inf
    with pytest.raises(ValueError, match="no token"):
        perplexity(0.0, 0)


@pytest.mark.parametrize("slide", ["half", "one"])
@pytest.mark.parametrize(("length", "first"), [(5, 1), (13, 4), (14, 13), (31, 2), (40, 39)])
def test_token_log_probs_equal_one_window_at_a_time(model, slide, length, first):
    generator = torch.Generator().manual_seed(length)
    ids = torch.randint(4, model.vocab_size, (length,), generator=generator).tolist()
    step = model.settings.context // 2 if slide == "half" else 1
    expected = []
    for n in range(first, length):
        start = 0
        while n - start > model.settings.context:
            start += step
        logits = model(torch.tensor([ids[start:n]])).detach()[0, -1].double()
        expected.append(float(torch.log_softmax(logits, 0)[ids[n]]))
    assert token_log_probs(model, ids, first, slide) == pytest.approx(expected, abs=1e-5)


def test_held_out_text_that_is_also_evaluation_is_a_warning(finished_run, tmp_path, monkeypatch):
    shutil.copytree(finished_run, tmp_path / "run", symlinks=True)
    monkeypatch.chdir(tmp_path / "run")
    corpus = read(Path(paths.results("download")))
    for source in NO_OFFICIAL_EVALUATION.values():
        write_json(paths.results("download"), corpus | {"evaluation_split": source})
        loss, *_ = measure_loss(load_trained_run(EVALUATE, torch.device("cpu")))
        is_warned = HELD_OUT_IS_EVALUATION in loss.warnings
        assert is_warned == (source == NO_OFFICIAL_EVALUATION["tokens"])
