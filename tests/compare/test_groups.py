import dataclasses

import pytest

from tinylm.compare.groups import Group, either, grouped
from tinylm.compare.statistics import BySeeds

SEEDS = {"n": 3, "perplexity": {"mean": 8.0, "sd": 0.1, "difference": 0.61}}


def names(runs):
    return [[run.name for run in group.runs] for group in grouped(runs)]


def test_runs_of_other_seeds_are_one_setting_and_other_settings_code_or_data_are_not(make_run):
    runs = [
        make_run("a"),
        make_run("b", {"train.lr": 1}),
        make_run("c", {"train.seed": 2, "runtime.threads": 8}),
        make_run("d", {"train.lr": 1, "train.seed": 2}),
        make_run("e", {"data.seed": 2}),
        dataclasses.replace(make_run("f"), inputs={"tinylm/model": "m2"}),
    ]
    assert names(runs) == [["a", "c"], ["b", "d"], ["e"], ["f"]]
    assert list(grouped(runs)[0].stories) == [1, 2]


@pytest.mark.parametrize("seed", [None, "one", "(none)"])
def test_a_run_without_a_seed_is_in_no_group_of_seeds(make_run, seed):
    assert names([make_run("a", {"train.seed": seed}), make_run("b", {"train.seed": 2})]) == [
        ["a"],
        ["b"],
    ]


def test_a_seed_counts_once_and_the_runs_own_stories_come_before_those_of_stage_seed_score(
    make_run,
):
    first = make_run("a")
    more = {1: make_run("x", shift=1.0).stories, 3: make_run("y", shift=1.0).stories}
    first = dataclasses.replace(first, more_stories=more)
    again, other = (
        make_run("b", shift=2.0),
        make_run("c", {"train.seed": 2}, texts=["another", "text"]),
    )
    stories = Group([first, again, other]).stories
    assert stories.keys() == {1, 3}  # those of seed 2 are of other texts
    assert stories[1] is first.stories
    assert stories[3] is more[3]


def test_what_stage_seeds_recorded_is_the_error_of_single_runs(make_run):
    run, twin = make_run("a"), make_run("b", {"train.seed": 2}, metrics={"seeds": SEEDS})
    known = Group([run, twin]).recorded("perplexity")
    assert known == BySeeds(pytest.approx(2**0.5 * 0.1), 2, (1, 1), paired=False)
    assert known.spread.difference == pytest.approx(
        0.6085, abs=1e-3
    )  # t of 2 degrees of freedom: 4.303
    assert Group([run, twin]).recorded("bits_per_byte") is None


@pytest.mark.parametrize(
    "seeds", [{"n": None}, {"n": 1}, {"perplexity": {"sd": "much"}}, {"perplexity": 3}]
)
def test_a_summary_of_another_schema_tells_nothing(make_run, seeds):
    assert Group([make_run("a", metrics={"seeds": SEEDS | seeds})]).recorded("perplexity") is None


def test_figures_by_seed_are_the_runs_own_and_those_of_stage_seeds(make_run):
    by_seed = {
        "1": {"perplexity": 99.0},
        "5": {"perplexity": 7.0},
        "x": {"perplexity": 1.0},
        "6": None,
    }
    run = make_run("a", metrics={"seeds": {"by_seed": by_seed}})
    assert Group([run]).figures("perplexity") == {1: run.value("evaluate", "perplexity"), 5: 7.0}


def test_the_variances_of_both_runs_add_up():
    one, other = BySeeds(3.0, 2, (1, 1), paired=False), BySeeds(4.0, 4, (1, 1), paired=False)
    assert either(one, other) == BySeeds(pytest.approx(12.5**0.5), 2, (1, 1), paired=False)
    assert either(one, None) == either(None, one) == one
    assert either(None, None) is None
