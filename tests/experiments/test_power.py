"""The noise that is found in recorded runs, and the plan: its power by simulation, the seeds and stories that it asks for."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from tinylm.experiments.power import MOST_SEEDS, Noise, detectable, recorded_noise, seeds_for
from tinylm.experiments.results import RevisionResult
from tinylm.run.interval import student_critical_value

NOISE = Noise(2 * 0.0058**2, 4, 0.09**2, 500)


@pytest.mark.parametrize(
    ("seeds", "stories", "comparisons"), [(3, 5000, 1), (6, 900, 1), (12, 300, 1), (8, 2000, 5)]
)
def test_an_effect_of_the_detectable_size_is_claimed_with_the_power(seeds, stories, comparisons):
    level = 0.05 / comparisons
    effect = detectable(NOISE, 0.8, level, seeds, stories)
    draws = 40_000
    rng = np.random.default_rng(0)
    differences = effect + rng.normal(0, NOISE.seeds**0.5, (draws, seeds))
    story_error = (NOISE.stories / stories) ** 0.5
    values = differences.mean(axis=1) + rng.normal(0, story_error, draws)
    seed_error = differences.std(axis=1, ddof=1) / seeds**0.5
    by_seeds = student_critical_value(level, seeds - 1) * seed_error
    by_stories = student_critical_value(level, 100) * story_error
    claimed = np.abs(values) > np.hypot(by_seeds, by_stories)
    assert 0.77 < claimed.mean() < 0.87


def test_the_seeds_are_the_fewest_that_detect_the_effect():
    for stories in (2000, 5000, 10**9):
        seeds = seeds_for(NOISE, 0.01, 0.8, 0.05, stories)
        assert detectable(NOISE, 0.8, 0.05, seeds, stories) <= 0.01
        assert detectable(NOISE, 0.8, 0.05, seeds - 1, stories) > 0.01
    assert seeds_for(NOISE, 0.01, 0.8, 0.05, 100) is None  # stories alone are too uncertain
    few = seeds_for(NOISE, 0.01, 0.8, 0.05, 2000)
    assert seeds_for(NOISE, 0.01, 0.95, 0.05, 2000) > few
    assert seeds_for(dataclasses.replace(NOISE, seeds=1e-12), 0.01, 0.8, 0.05, 5000) == 2
    assert math.isfinite(detectable(NOISE, 0.99, 1e-6, MOST_SEEDS, 500))


# nats per token: of a seed in all settings, of a seed in one setting, of a story under one setting, of one such run
SHARED, OWN, STORY, CELL = 0.02, 0.01, 0.01, 0.02
BY_SEEDS, BY_STORIES = 2 * OWN**2, 2 * (STORY**2 + CELL**2)


def sweep(rng, settings, seeds, stories):
    """The first setting and others that differ from it in nothing."""
    texts = [f"text {i}" for i in range(stories)]
    tokens = rng.integers(80, 160, stories).astype(float)
    hard, shared = rng.normal(2.0, 0.6, stories), rng.normal(0, SHARED, seeds)
    runs = []
    for setting in range(settings + 1):
        taste = rng.normal(0, STORY, stories)
        for seed in range(seeds):
            loss = hard + taste + shared[seed] + rng.normal(0, OWN) + rng.normal(0, CELL, stories)
            nats = tokens * loss
            params = {"train.lr": float(setting), "train.seed": seed}
            columns = {"text_id": texts, "tokens_id": texts, "nats": nats, "tokens": tokens}
            raw = {"raw_bits": nats / np.log(2), "raw_bytes": tokens * 4}
            table = {seed: pd.DataFrame(columns | raw)}
            runs.append(RevisionResult(f"{setting}-{seed}", params, stories=table))
    return runs


def test_recorded_noise_is_that_of_the_simulation():
    rng = np.random.default_rng(3)
    noise = recorded_noise(sweep(rng, settings=2, seeds=60, stories=400))
    assert noise.seeds == pytest.approx(BY_SEEDS, rel=0.4)
    assert noise.stories == pytest.approx(BY_STORIES, rel=0.2)
    assert (noise.count, noise.df) == (400, 2 * 59)
    alone = recorded_noise(sweep(rng, settings=0, seeds=60, stories=400))  # nothing is paired
    assert alone.seeds == pytest.approx(2 * (SHARED**2 + OWN**2), rel=0.4)
