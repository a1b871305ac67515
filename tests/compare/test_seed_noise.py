import pytest

from tinylm.compare.statistics import Noise, Spread, either

SEEDS = {"n": 3, "perplexity": {"mean": 8.0, "sd": 0.1, "difference": 0.61}}


def test_a_runs_own_seeds_come_first(make_run):
    theirs = {"n": 5, "perplexity": {"mean": 8.0, "sd": 0.2, "difference": 0.8}}
    run = make_run("a", metrics={"seeds": SEEDS})
    twin = make_run("b", {"train.seed": 2}, metrics={"seeds": theirs}, shift=1.0)
    noise = Noise([run, twin])
    assert noise.of(run, "perplexity") == Spread(0.61, 3)
    assert noise.of(twin, "perplexity") == Spread(0.8, 5)
    assert noise.of(run, "bits_per_byte") is None


@pytest.mark.parametrize("seeds", [{"n": None}, {"perplexity": {"difference": "much"}}, {"perplexity": 3}])
def test_a_summary_of_another_schema_tells_nothing(make_run, seeds):
    assert Noise([run := make_run("a", metrics={"seeds": SEEDS | seeds})]).of(run, "perplexity") is None


@pytest.mark.parametrize("seed", [None, "one", "(none)"])
def test_a_run_without_a_seed_is_in_no_group_of_seeds(make_run, seed):
    runs = [make_run("a", {"train.seed": seed}), make_run("b", {"train.seed": 2}, shift=0.1)]
    assert Noise(runs).of(runs[1], "perplexity") is None


def test_runs_of_other_seeds_among_those_compared_tell_too(make_run):
    runs = [make_run("a"), make_run("b", {"train.seed": 2}, shift=0.1), make_run("c", {"train.lr": 1})]
    noise = Noise(runs)
    values = [run.value("evaluate", "perplexity") for run in runs[:2]]
    # two seeds: sd = d / sqrt(2), so that t(1) * sqrt(2) * sd = 12.706 * d
    expected = 12.706 * abs(values[0] - values[1])
    assert noise.of(runs[0], "perplexity").difference == pytest.approx(expected, rel=1e-3)
    assert noise.of(runs[1], "perplexity") == noise.of(runs[0], "perplexity")
    assert noise.of(runs[2], "perplexity") is None


def test_seeds_of_a_run_of_the_same_settings_tell_before_the_runs_themselves(make_run):
    runs = [make_run("a"), make_run("b", {"train.seed": 2}, shift=0.1), make_run("c", metrics={"seeds": SEEDS})]
    assert [Noise(runs).of(run, "perplexity") for run in runs] == [Spread(0.61, 3)] * 3


def test_the_same_seed_twice_tells_nothing(make_run):
    runs = [make_run("a"), make_run("b", {"runtime.threads": 8}, shift=0.1)]
    assert Noise(runs).of(runs[0], "perplexity") is None


def test_other_settings_code_or_data_make_no_group(make_run):
    first, second = make_run("a"), make_run("b", {"train.seed": 2, "data.seed": 2}, shift=0.1)
    assert Noise([first, second]).of(first, "perplexity") is None
    third = make_run("c", {"train.seed": 2}, shift=0.1)
    third.inputs["tinylm/model"] = "m2"
    assert Noise([first, third]).of(first, "perplexity") is None


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (Spread(3.0, 3), Spread(4.0, 5), Spread(12.5**0.5, 3)),
        (Spread(3.0, 3), None, Spread(3.0, 3)),
        (None, Spread(4.0, 5), Spread(4.0, 5)),
        (None, None, None),
    ],
)
def test_the_variances_of_both_runs_add_up(first, second, expected):
    assert either(first, second) == (expected and Spread(pytest.approx(expected.difference), expected.seeds))
