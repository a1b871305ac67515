"""The plan: power compared with simulation, the seeds and stories it asks for, and recorded noise."""

import dataclasses
import math

import numpy as np
import pytest

from tinylm.compare.planning import (
    Goal,
    power,
    seeds_for,
)
from tinylm.evaluate.statistics import student_critical_value

BY_SEEDS = 2 * 0.0058**2
BY_STORIES = 0.09**2


@pytest.mark.parametrize(
    ("seeds", "stories", "comparisons"), [(2, 5000, 1), (6, 900, 1), (12, 300, 1), (8, 2000, 5)]
)
def test_power_is_the_share_of_samples_in_which_the_test_finds_the_effect(
    seeds, stories, comparisons
):
    effect = 0.01
    draws = 40_000
    rng = np.random.default_rng(0)
    differences = effect + rng.normal(0, BY_SEEDS**0.5, (draws, seeds))
    story_error = (BY_STORIES / stories) ** 0.5
    values = differences.mean(axis=1) + rng.normal(0, story_error, draws)
    seed_error = differences.std(axis=1, ddof=1) / seeds**0.5
    level = 0.05 / comparisons
    by_seeds = student_critical_value(level, seeds - 1) * seed_error
    by_stories = student_critical_value(level, 100) * story_error
    share = (np.abs(values) > np.hypot(by_seeds, by_stories)).mean()
    goal = Goal(effect, comparisons=comparisons)
    expected = pytest.approx(share, abs=4 * math.sqrt(0.25 / draws))
    assert power(goal, BY_SEEDS, BY_STORIES, seeds, stories) == expected


def test_the_seeds_are_the_fewest_that_have_the_power():
    goal = Goal(0.01)
    for stories in (2000, 5000, math.inf):
        seeds = seeds_for(goal, BY_SEEDS, BY_STORIES, stories)
        assert power(goal, BY_SEEDS, BY_STORIES, seeds, stories) >= 0.8
        assert power(goal, BY_SEEDS, BY_STORIES, seeds - 1, stories) < 0.8
    assert seeds_for(goal, BY_SEEDS, BY_STORIES, 100) is None  # stories alone are too uncertain
    surer = dataclasses.replace(goal, power=0.95)
    few = seeds_for(goal, BY_SEEDS, BY_STORIES, 2000)
    assert seeds_for(surer, BY_SEEDS, BY_STORIES, 2000) > few
