"""Minimal pairs: crossed so that frequency alone is at chance, and scored as a loop over tokens would."""

import collections
import re

import numpy as np
import pytest
import torch

from tests.support.small import model_settings
from tinylm.evaluate.minimal_pairs import (
    PAIRS,
    PAIRS_IN_TRAINING,
    SEEN,
    TOO_FEW,
    judge_pairs,
    make_pairs,
    margins,
    share_right,
    untrained_like,
)
from tinylm.evaluate.ngram import KneserNey
from tinylm.evaluate.phenomena import PHENOMENA, Draw, NothingToDraw, Pair
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
    stories = [story.text for number in range(8) for story in generate(200, number, 5)[0]]
    vocab = VocabSettings(tokenizer="words")
    tokenizer = build_tokenizer(count_words(stories, vocab), vocab)
    return tokenizer, make_store(tmp_path_factory.mktemp("tokens"), stories, tokenizer)


@pytest.fixture(scope="module")
def made(corpus):
    return make_pairs(*corpus, CONTEXT, 1)


def words(text):
    return re.findall(r"[a-z']+", text.lower())


def drawn(phenomenon, has=lambda word: True, times=60):
    draw = Draw(has, np.random.default_rng(3))
    found = []
    for _ in range(times):
        try:
            found.append(phenomenon.draw(draw))
        except NothingToDraw:
            continue
    return found


@pytest.mark.parametrize("phenomenon", PHENOMENA, ids=lambda phenomenon: phenomenon.name)
def test_frequency_alone_is_at_chance(phenomenon):
    """The right texts of each draw have the words of the wrong ones: what gains in one pair loses in the other."""
    found = drawn(phenomenon)
    assert len(found) > 40
    for pairs in found:
        assert len(pairs) in (1, 2)
        right, wrong = (
            collections.Counter(w for pair in pairs for w in words(pair[i])) for i in (0, 1)
        )
        assert right == wrong
        for pair in pairs:
            assert pair.right != pair.wrong
            assert pair.right.split()[0] == pair.wrong.split()[0]  # the first token may be unscored
            assert "_" not in pair.right + pair.wrong


def test_pairs_are_made_of_words_that_were_seen(corpus, made):
    tokenizer, store = corpus
    counts = np.bincount(store.ids, minlength=len(tokenizer))
    assert sum(len(pairs.texts) >= TOO_FEW for pairs in made) >= 12
    for pairs in made:
        assert len(pairs.texts) == len(pairs.ids) == len(set(pairs.texts)) <= PAIRS + 1
        for text, ids in zip(pairs.texts, pairs.ids, strict=True):
            for one, other in zip(text, ids, strict=True):
                assert other == [tokenizer.sos_id, *tokenizer.encode(one)]
                assert tokenizer.unk_id not in other
                assert len(other) <= CONTEXT + 1
                assert counts[other].min() >= SEEN


def by(counted):
    return lambda rows: np.array([counted.log_probs(np.array(row)).sum() for row in rows])


def test_who_saw_only_right_texts_is_right_and_who_saw_only_wrong_ones_is_wrong(corpus, made):
    tokenizer, _ = corpus
    for side, expected in ((0, 1.0), (1, 0.0)):
        seen = [np.array(ids[side]) for pairs in made for ids in pairs.ids]
        counted = KneserNey(seen, 12, len(tokenizer))
        shares = [share_right(margins(p, by(counted)))["value"] for p in made if p.texts]
        assert np.mean(shares) == pytest.approx(expected, abs=0.06)


def small_model(tokenizer):
    torch.manual_seed(1)
    settings = model_settings(heads=2, context=CONTEXT, dropout=0.1)
    return TinyLM(settings, torch.randn(len(tokenizer), 12)).eval()


def test_equal_probabilities_are_half_right():
    assert share_right(np.array([1.0, -1.0, 0.0, 1e-9]))["value"] == 0.5
    assert share_right(np.zeros(0)) is None


def test_figures_and_rows(corpus, made):
    tokenizer, store = corpus
    model = small_model(tokenizer)
    stories = [store.story(number) for number in range(len(store))]
    ngrams, unigrams = (KneserNey(stories, order, len(tokenizer)) for order in (3, 1))
    fresh = untrained_like(model, np.random.default_rng(1).normal(size=(len(tokenizer), 12)), 1)
    figures, rows = judge_pairs(
        tokenizer, store, ngrams, unigrams, [(0.0, fresh), (None, model)], 1
    )
    assert list(figures["phenomena"]) == [phenomenon.name for phenomenon in PHENOMENA]
    assert len(rows) == sum(len(pairs.texts) for pairs in made)
    for pairs in made:
        found = figures["phenomena"][pairs.name]
        own = [row for row in rows if row["phenomenon"] == pairs.name]
        assert [Pair(row["right"], row["wrong"]) for row in own] == pairs.texts
        assert found["pairs"] == len(own)
        if len(own) < TOO_FEW:
            assert found["model"] is found["kneser_ney"] is None
        else:
            right = [(1 + np.sign(round(row["kneser_ney"], 5))) / 2 for row in own]
            assert found["kneser_ney"]["value"] == pytest.approx(np.mean(right))
    measured = [row for row in figures["phenomena"].values() if row["model"]]
    assert figures["all"]["model"] == pytest.approx(
        np.mean([row["model"]["value"] for row in measured])
    )
    assert figures["all"]["kneser_ney"] > 0.55 > figures["all"]["model"]
    assert [moment["epochs"] for moment in figures["training"]] == [0.0, None]
    first = [row["model"] for row in rows if row["phenomenon"] == PHENOMENA[0].name][
        :PAIRS_IN_TRAINING
    ]
    assert figures["training"][1]["phenomena"][PHENOMENA[0].name] == share_right(np.array(first))
