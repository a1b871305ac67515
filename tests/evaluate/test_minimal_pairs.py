"""Minimal pairs: crossed so that frequency alone is at chance, and scored as a loop over tokens would."""

import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from tests.support.small import model_settings
from tinylm.evaluate import minimal_pairs
from tinylm.evaluate.minimal_pairs import (
    PAIRS,
    SEEN,
    TOO_FEW,
    judge_pairs,
    make_pairs,
    margins,
    share_right,
)
from tinylm.evaluate.ngram import KneserNey
from tinylm.evaluate.phenomena import PHENOMENA, Draw, draw_pairs
from tinylm.evaluate.statistics import wilson
from tinylm.evaluate.trained_run import untrained_like
from tinylm.model.transformer import TinyLM
from tinylm.storybook.corpus import generate
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.token_store import TokenStore, write_store
from tinylm.vocab.words import build_tokenizer, count_words

CONTEXT = 48


def make_store(folder, stories, tokenizer, split="train"):
    write_store(folder, split, (tokenizer.encode_story(story) for story in stories), len(tokenizer))
    return TokenStore(folder, split)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """(tokenizer, store) of storybook stories, enough for most words to occur ten times."""
    stories = [story.text for number in range(5) for story in generate(200, number, 5)[0]]
    vocab = VocabSettings(tokenizer="words")
    tokenizer = build_tokenizer(count_words(stories, vocab), vocab)
    return tokenizer, make_store(tmp_path_factory.mktemp("tokens"), stories, tokenizer)


@pytest.fixture(scope="module")
def all_pairs(corpus):
    return make_pairs(*corpus, CONTEXT, 1)


def words(text):
    return re.findall(r"[a-z']+", text.lower())


@pytest.mark.parametrize("phenomenon", PHENOMENA)
def test_frequency_alone_is_at_chance(phenomenon):
    """The right texts of each draw have the words of the wrong ones: what gains in one pair loses in the other."""
    draw = Draw(lambda word: True, np.random.default_rng(3))
    for _ in range(60):
        pairs = draw_pairs(PHENOMENA[phenomenon], draw)
        if any(pair.right == pair.wrong for pair in pairs):  # two animals with the same sound
            continue
        assert len(pairs) in (1, 2)
        right = words(" ".join(pair.right for pair in pairs))
        wrong = words(" ".join(pair.wrong for pair in pairs))
        assert sorted(right) == sorted(wrong)
        for pair in pairs:
            assert pair.right.split()[0] == pair.wrong.split()[0]  # the first token may be unscored
            assert "_" not in pair.right + pair.wrong


def test_pairs_are_made_of_words_that_were_seen(corpus, all_pairs):
    tokenizer, store = corpus
    counts = np.bincount(store.ids, minlength=len(tokenizer))
    sizes = all_pairs.groupby("phenomenon").size()
    assert (sizes >= TOO_FEW).sum() >= 12
    assert sizes.max() <= PAIRS + 1
    assert not all_pairs.duplicated(["right", "wrong"]).any()
    for _, pair in all_pairs.iterrows():
        for side in ("right", "wrong"):
            ids = pair[f"{side}_ids"]
            assert ids == [tokenizer.sos_id, *tokenizer.encode(pair[side])]
            assert tokenizer.unk_id not in ids
            assert len(ids) <= CONTEXT + 1
            assert counts[ids].min() >= SEEN


def by(counted):
    return lambda rows: np.array([counted.log_probs(np.array(row)).sum() for row in rows])


def test_who_saw_only_right_texts_is_right_and_who_saw_only_wrong_ones_is_wrong(corpus, all_pairs):
    tokenizer, _ = corpus
    for side, expected in (("right", 1.0), ("wrong", 0.0)):
        seen = [np.array(ids) for ids in all_pairs[f"{side}_ids"]]
        margin = margins(all_pairs, by(KneserNey(seen, 7, len(tokenizer))))
        assert share_right(margin, all_pairs["draw"])["value"] == pytest.approx(expected, abs=0.06)


def test_equal_probabilities_are_half_right_and_crossed_pairs_are_one_draw():
    margin = np.array([1.0, -1.0, 0.0, 1e-9] * TOO_FEW)
    draws = pd.Series(np.arange(4 * TOO_FEW) // 2)
    assert share_right(margin, draws) == wilson(TOO_FEW, 2 * TOO_FEW)
    assert share_right(margin[: TOO_FEW - 1], draws) is None


def test_metrics_are_shares_of_the_rows(corpus, all_pairs, monkeypatch):
    fewer = all_pairs.groupby("phenomenon").head(2 * TOO_FEW).reset_index(drop=True)
    monkeypatch.setattr(minimal_pairs, "make_pairs", lambda *_: fewer)
    tokenizer, store = corpus
    torch.manual_seed(1)
    settings = model_settings(heads=2, context=CONTEXT, dropout=0.1)
    vectors = torch.randn(len(tokenizer), 12)
    model = TinyLM(settings, vectors).eval()
    stories = [store.story(number) for number in range(len(store))]
    ngrams = KneserNey(stories, 3, len(tokenizer))
    untrained = untrained_like(model, vectors.numpy(), 1)
    run = SimpleNamespace(
        tokenizer=tokenizer,
        train=store,
        model=model,
        untrained=untrained,
        ngrams=ngrams,
        unigrams=ngrams,
    )
    results, tables = judge_pairs(run, 1)
    metrics = results["pairs"]
    table = tables["pairs"]
    assert list(metrics["phenomena"]) == list(PHENOMENA)
    assert table["right"].tolist() == fewer["right"].tolist()
    shares = []
    for name, of_name in table.groupby("phenomenon"):
        entry = metrics["phenomena"][name]
        assert entry["pairs"] == len(of_name)
        if len(of_name) < TOO_FEW:
            assert entry["kneser_ney"] is None
            continue
        right = (1 + np.sign(of_name["kneser_ney"].round(5))) / 2
        assert entry["kneser_ney"]["value"] == pytest.approx(right.mean())
        shares.append(right.mean())
    assert metrics["all"]["kneser_ney"] == pytest.approx(np.mean(shares))
    assert metrics["all"]["kneser_ney"] > 0.55 > metrics["all"]["model"]
