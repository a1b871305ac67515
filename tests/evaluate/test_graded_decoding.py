"""Grades of decoding settings, against sums over all words by their definitions."""

from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings

from tests.decoding.test_sampling import FILTERS, distribution
from tests.evaluate.test_truth import STORIES, run_of
from tests.support.small import words_of
from tinylm.decoding.sampling import generate
from tinylm.evaluate import graded_decoding
from tinylm.evaluate.free_texts import judge, read_free_text, usual_surprises
from tinylm.evaluate.graded_decoding import (
    BEAMS,
    OWN,
    PLAIN,
    SETTINGS,
    grade_decoding,
    grade_words,
    graded_settings,
    plotted,
)
from tinylm.evaluate.truth import TrueTokens, compared_stories, read_words
from tinylm.run.evaluated import GENERATOR, DecodingGrade
from tinylm.run.interval import Interval
from tinylm.storybook.language import END
from tinylm.storybook.world import storybook

WEIGHTS = st.lists(st.sampled_from([0.0, 0.0, 1.0, 2.0, 5.0]), min_size=5, max_size=5).filter(any)


@given(st.lists(st.tuples(WEIGHTS, WEIGHTS), min_size=1, max_size=4))
def test_grades_are_what_their_definitions_say(rows):
    true = np.array([np.divide(p, sum(p)) for p, _ in rows])
    drawn = np.array([np.divide(q, sum(q)) for _, q in rows])
    positions, ids = np.nonzero(true)
    found = grade_words(TrueTokens(positions, ids, true[positions, ids]), drawn)
    assert found["total_variation"] == pytest.approx(np.abs(true - drawn).sum(1) / 2)
    assert found["impossible"] == pytest.approx(np.where(true == 0, drawn, 0).sum(1), abs=1e-12)
    assert found["cut"] == pytest.approx(np.where(drawn == 0, true, 0).sum(1))


@settings(max_examples=6, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(own=FILTERS, penalty=st.sampled_from([1.0, 2.0]))
def test_a_run_is_graded_at_the_true_prefixes_of_its_stories(own, penalty, tmp_path, monkeypatch):
    torch.manual_seed(5)
    tokenizer = words_of([story.text for story in STORIES])
    run = run_of(tokenizer, tmp_path, monkeypatch)
    monkeypatch.setattr(graded_decoding, "TEXTS", 2)
    short = lambda *given, max_new_tokens: generate(*given, max_new_tokens=3)  # noqa: E731
    monkeypatch.setattr(graded_decoding, "generate", short)
    monkeypatch.setattr(graded_decoding, "SETTINGS", {PLAIN: SETTINGS[PLAIN]})
    grades = grade_decoding(run, compared_stories(run).stories[:2], own)
    assert list(grades) == [OWN, PLAIN, BEAMS, GENERATOR]
    repeating = replace(own, repetition_penalty=penalty, repetition_window=2)
    assert graded_settings(repeating)[OWN] == own
    seeds = {each.seed for each in graded_settings(replace(own, seed=7)).values()}
    assert seeds == {7}
    sums = np.zeros(3)
    words = 0
    for story in STORIES[:2]:
        ids = tokenizer.encode_story(story.text)
        logits = run.model(torch.tensor([ids[:-1]]))[0].float().tolist()
        positions = read_words([*tokenizer.split(story.text), END])[:-1]
        for position, row in zip(positions, logits, strict=True):
            true = {tokenizer.tokens.index(w): p for w, p in position.following.probs.items()
                    if w in tokenizer.tokens}  # fmt: skip
            drawn = distribution(row, own)
            both = true.keys() | drawn.keys()
            unknown = 1 - sum(true.values())  # words that the vocabulary lacks are never drawn
            apart = sum(abs(true.get(token, 0) - drawn.get(token, 0)) for token in both) + unknown
            cut = sum(p for token, p in true.items() if token not in drawn) + unknown
            impossible = sum(q for token, q in drawn.items() if token not in true)
            sums += [apart / 2, impossible, cut]
            words += 1
    grade = grades[OWN]
    found = [grade.total_variation.value, grade.impossible.value, grade.cut.value]
    assert found == pytest.approx(sums / words, abs=1e-5)
    plain = grades[PLAIN].total_variation.value
    assert grade.difference.value == pytest.approx(grade.total_variation.value - plain)
    assert grade.free.texts == (1 if own.temperature == 0 else 2)
    assert grades[BEAMS] == DecodingGrade(free=grades[BEAMS].free)
    true_stories = [read_free_text(story.text, True, storybook()) for story in STORIES[:2]]
    usual = usual_surprises(true_stories)
    assert grades[GENERATOR].free == judge(true_stories, usual, storybook())
    assert abs(grades[GENERATOR].free.excess_nats.value) < 1e-6
    assert grades[GENERATOR].cut == Interval(0.0, 0.0, 0.0)
    assert len(plotted(grades)) == 3 * (len(grades) - 1)
