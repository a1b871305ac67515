"""The plan: power by its formula and by chance, what it asks for, and the command."""

import contextlib
import dataclasses
import json
import math

import numpy as np
import pytest

from tests.compare.test_command import folder  # noqa: F401
from tinylm.cli.command import main
from tinylm.compare.planning import (
    Recorded,
    Variance,
    Wanted,
    plan,
    power,
    recorded,
    rows,
    seeds_for,
    stories_for,
)
from tinylm.evaluate.statistics import student_point


@pytest.mark.parametrize(
    ("seeds", "stories", "comparisons"), [(2, 5000, 1), (6, 900, 1), (12, 300, 1), (8, 2000, 5)]
)
def test_power_is_the_share_of_samples_in_which_the_test_finds_the_effect(
    seeds, stories, comparisons
):
    effect, by_seeds, by_stories, draws = 0.01, 2 * 0.0058**2, 0.09**2, 40_000
    rng = np.random.default_rng(0)
    apart = effect + rng.normal(0, by_seeds**0.5, (draws, seeds))
    values = apart.mean(axis=1) + rng.normal(0, (by_stories / stories) ** 0.5, draws)
    points = (student_point(0.05 / comparisons, freedom) for freedom in (seeds - 1, 100))
    errors = apart.std(axis=1, ddof=1) / seeds**0.5, (by_stories / stories) ** 0.5
    share = (
        np.abs(values)
        > np.hypot(*(point * error for point, error in zip(points, errors, strict=True)))
    ).mean()
    found = power(Wanted(effect, comparisons=comparisons), by_seeds, by_stories, seeds, stories)
    assert found == pytest.approx(share, abs=4 * math.sqrt(0.25 / draws))


def test_a_plan_is_the_smallest_that_has_the_power():
    wanted, by_seeds, by_stories = Wanted(0.01), 2 * 0.0058**2, 0.09**2
    table = rows(wanted, by_seeds, by_stories)
    assert len(table) > 2
    for seeds, stories in table:
        assert (
            power(wanted, by_seeds, by_stories, seeds, stories)
            >= 0.8
            > power(wanted, by_seeds, by_stories, seeds, stories - 1)
        )
        assert seeds_for(wanted, by_seeds, by_stories, stories) <= seeds
    assert stories_for(wanted, by_seeds, by_stories, table[0][0] - 1) is None
    assert seeds_for(wanted, by_seeds, by_stories, 100) is None  # stories alone are too uncertain
    sure = seeds_for(dataclasses.replace(wanted, power=0.95), by_seeds, by_stories, 2000)
    assert sure > seeds_for(wanted, by_seeds, by_stories, 2000)
    assert rows(Wanted(1e-6), by_seeds, by_stories) == []


@pytest.mark.parametrize(
    ("freedom", "low", "high"), [(2, 0.5207, 6.2847), (9, 0.6878, 1.8256), (30, 0.7991, 1.3367)]
)
def test_the_interval_of_a_spread_is_that_of_the_tables(freedom, low, high):
    assert Variance(1.0, freedom, 1).sd_interval() == pytest.approx((low, high), rel=2e-3)


def test_what_was_not_recorded_is_told():
    one = Variance(0.0058**2, 4, 2)
    told = "\n".join(plan(Recorded(one, None, None, 0), Wanted(0.01)))
    assert (
        "Stories are not accounted for: no two runs recorded the losses of the same stories."
        in told
    )
    assert f"  {seeds_for(Wanted(0.01), 2 * one.value, 0.0)} seeds" in told
    told = "\n".join(plan(Recorded(one, None, Variance(0.09**2, 99, 1), 100), Wanted(0.01)))
    assert (
        "With the 100 evaluation stories of now: no number of seeds up to 10,000 is enough." in told
    )


def test_pairs_of_the_same_seed_come_before_single_runs_and_settings_before_seeds(make_run):
    def runs(*moves):
        return [
            make_run(
                f"{lr}{seed}",
                {"train.lr": lr, "train.seed": seed},
                shift=move + 0.1 * seed,
                noise=0.01,
                seed=lr,
            )
            for lr, move in enumerate(moves)
            for seed in (1, 2, 3)
        ]

    alone = recorded(runs(0.0))
    assert (alone.paired, alone.one.freedom, alone.now) == (None, 2, 40)
    assert alone.one.sd == pytest.approx(0.1, rel=0.01)
    assert alone.stories.value == pytest.approx(
        0.0, abs=1e-12
    )  # seeds of this setting move all stories alike
    both = recorded(runs(0.0, 0.3))
    assert both.paired.value == pytest.approx(0.0, abs=1e-6)
    assert both.stories.sd == pytest.approx(2**0.5 * 0.01, rel=0.3)
    assert recorded([make_run("a")]) == Recorded(None, None, None, 40)


@pytest.fixture
def opened(monkeypatch, revision):
    """What the command finds: a workspace of three seeds, as stage seeds recorded them."""
    lock = json.loads(revision().read("dvc.lock"))
    lock["stages"]["seeds"] = {"cmd": "python -m stages.seeds"}
    by_seed = {str(seed): {"nats_per_token": 2.49 + seed / 100} for seed in (1, 2, 3)}
    asked = []

    @contextlib.contextmanager
    def fake(names, experiments=False):
        asked.append((list(names), experiments))
        metrics = (
            {}
            if names == ["bare"]
            else {"metrics/seeds.json": {"n": 3, "by_seed": by_seed}, "dvc.lock": lock}
        )
        yield [revision("workspace", **metrics)]

    monkeypatch.setattr("tinylm.compare.revisions.opened", fake)
    return asked


def test_the_command_prints_the_noise_and_the_plan(opened, capsys):
    assert main(["plan", "--effect", "0.05", "--comparisons", "3"]) == 0
    text = capsys.readouterr().out
    assert opened == [(["workspace"], True)]
    assert (
        "between seeds, of one run               0.01 (95 %: 0.00521 to 0.0628; 1 setting, 2 degrees of freedom)"
        in text
    )
    assert (
        "a difference of 0.05 nats per token with a power of 80 % at a level of 5 %, corrected for 3 comparisons"
        in text
    )
    assert f"  {seeds_for(Wanted(0.05, comparisons=3), 2e-4, 0.0)} seeds\n" in text


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["bare", "--effect", "0.01"],
            "no spread between seeds is recorded in bare; dvc exp run -S 'seeds.more=[2,3]'",
        ),
        (["--effect", "0"], "--effect 0; allowed: above 0 and below 100"),
        (["--effect", "nan"], "--effect nan; allowed: above 0"),
        (["--effect", "1", "--power", "1"], "--power 1; allowed: above 0 and below 1"),
        (
            ["--effect", "1", "--power", "0.1", "--level", "0.2"],
            "--power 0.1; allowed: above --level, 0.2",
        ),
        (["--effect", "1", "--comparisons", "0"], "--comparisons 0; allowed: 1 to 100,000"),
        (
            ["--effect", "1e-9"],
            "--effect 1e-09: more than 10,000 seeds; allowed: a larger difference",
        ),
    ],
)
def test_what_cannot_be_planned_is_one_line(opened, capsys, words, told):
    assert main(["plan", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {told}")
    assert error.count("\n") == 1
