"""Scaling laws: a known law is found again; and a fact that is swapped in the residual stream."""

import math
import random

import numpy as np
import pandas as pd
import pytest
import torch

from studies.scaling import (
    FLOOR_STEP,
    fit,
    fit_above,
    floors_without_one,
    generator_loss,
    law_tables,
)
from studies.swap import pair, patched
from tests.support.folders import write_stories
from tests.support.small import random_model, words_of
from tinylm.base.config import InputError
from tinylm.base.paths import STORIES, TOKENIZER
from tinylm.storybook.corpus import generate
from tinylm.storybook.language import END
from tinylm.storybook.truth import first_impossible
from tinylm.storybook.world import storybook

SIZES = np.repeat([1e4, 5e4, 2e5, 8e5], 4)
TOKENS = np.tile([1.5e5, 3.8e5, 9.5e5, 2.4e6], 4)
LOSSES = 0.65 + 60 * SIZES**-0.5 + 3000 * TOKENS**-0.65  # 0.93 to 2.5


def result_of(losses):
    columns = {"block_parameters": SIZES, "tokens": TOKENS, "held_out_loss": losses}
    names = [f"run {number}" for number in range(len(losses))]
    return pd.DataFrame(columns).assign(setting=names, diverged=0, generator_loss=0.65)


def test_a_known_law_is_found_again():
    found = fit(SIZES, TOKENS, LOSSES)
    assert found.law.floor == found.low == found.high == pytest.approx(0.65)
    assert found.law.size_exponent == pytest.approx(0.5)
    assert found.law.tokens_exponent == pytest.approx(0.65)
    assert found.law.size_factor == pytest.approx(60)
    assert found.law.tokens_factor == pytest.approx(3000)
    assert found.law.loss(SIZES, TOKENS) == pytest.approx(LOSSES)


def test_the_interval_of_noisy_runs_is_wider_and_has_the_true_floor():
    rng = np.random.default_rng(4)
    widths = []
    for noise in (0.003, 0.02):
        found = fit(SIZES, TOKENS, LOSSES * (1 + noise * rng.standard_normal(16)))
        assert found.low - FLOOR_STEP <= 0.65 <= found.high + FLOOR_STEP
        assert found.low <= found.law.floor <= found.high
        widths.append(found.high - found.low)
    assert 0 < widths[0] < widths[1]


def test_the_factors_are_those_of_least_squares():
    losses = LOSSES * (1 + 0.02 * np.random.default_rng(5).standard_normal(16))
    law = fit_above(0.4, SIZES, TOKENS, losses)
    assert (((law.loss(SIZES, TOKENS) - losses) / losses) ** 2).sum() == pytest.approx(law.squares)
    for a, b in ((law.size_exponent, law.tokens_exponent), (0.3, 0.3), (0.5, 0.65), (1.2, 0.4)):
        columns = np.stack([SIZES**-a, TOKENS**-b], axis=1) / losses[:, None]
        factors, (squares,), *_ = np.linalg.lstsq(columns, 1 - 0.4 / losses)
        if (a, b) == (law.size_exponent, law.tokens_exponent):
            assert factors == pytest.approx([law.size_factor, law.tokens_factor])
        assert squares >= law.squares * (1 - 1e-9)


def test_a_law_is_fitted_without_each_run_and_without_diverged_ones():
    assert list(floors_without_one(SIZES, TOKENS, LOSSES)) == pytest.approx([0.65] * 16)
    result = result_of(LOSSES)
    result.loc[15, ["held_out_loss", "diverged"]] = math.nan, 1
    text = str(law_tables(result))
    assert "0.65 (0.65 to 0.65)" in text
    assert "run 14" in text
    with pytest.raises(InputError, match="at least 7 runs"):
        law_tables(result[:6])


@pytest.mark.parametrize("known_stories", [12, 2])
def test_the_generators_loss_is_that_of_its_own_stories(tmp_path, monkeypatch, known_stories):
    monkeypatch.chdir(tmp_path)
    stories = list(generate(12, 0, 5)[0])
    texts = [story.text for story in stories]
    tokenizer = words_of(texts[:known_stories])
    tokenizer.save(TOKENIZER)
    path = tmp_path / STORIES / "held_out.jsonl"
    write_stories(path, texts)
    tokens = sum(len(tokenizer.encode_story(story.text)) - 1 for story in stories)
    own = -sum(story.log_prob for story in stories) / tokens
    if known_stories == 12:
        assert generator_loss() == pytest.approx(own, abs=1e-6)
    else:  # unknown words are one token, so they need not be told apart
        assert 0 < generator_loss() < own
    write_stories(path, [texts[0], "Once upon a tree there was"])
    with pytest.raises(InputError, match=r"story 2 .* 'tree'"):
        generator_loss()


def test_a_patch_before_the_first_layer_makes_the_twin_and_one_after_the_last_changes_one_word():
    model = random_model(vocab=40, width=16, context=9).double()
    ids = torch.tensor([1, 5, 9, 5, 7, 8])
    twin = torch.tensor([1, 6, 9, 6, 7, 8])
    of_story, of_twin = (
        torch.log_softmax(model(row[None])[0], -1).detach().numpy() for row in (ids, twin)
    )
    first, between, last = patched(model, ids, twin, [1, 3])
    assert abs(first - of_twin).max() < 1e-12
    assert abs(last[[1, 3]] - of_twin[[1, 3]]).max() < 1e-12
    others = [0, 2, 4, 5]
    assert abs(last[others] - of_story[others]).max() < 1e-12
    assert abs(between[4] - of_story[4]).max() > 1e-3 < abs(between[4] - of_twin[4]).max()


def test_a_twin_is_a_possible_story_with_another_name():
    found = 0
    for story in generate(8, 0, 1)[0]:
        words = storybook().normalise(story.text).split()
        twins = pair(words, "person", set(storybook().vocabulary()), random.Random(1))
        if twins is None:
            continue
        found += 1
        assert [word for word, _ in twins.story] == [*words, END]
        swapped = [word for word, _ in twins.twin][:-1]
        assert first_impossible(swapped, ended=True) is None
        differ = [number for number in range(len(words)) if swapped[number] != words[number]]
        assert differ == twins.mentions
        assert len({words[number] for number in differ}) == 1
    assert found > 3
