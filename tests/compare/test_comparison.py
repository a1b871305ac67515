import dataclasses

import numpy as np
import pandas as pd
import pytest

from tinylm.compare.comparison import compare, most_changed, what_differs
from tinylm.compare.runs import PAIR_COLUMNS, Setting, settings_of

METRICS = ["perplexity", "raw_bits_per_byte", "bits_per_byte", "bleu4"]


def findings(comparison, place=0):
    return {finding.metric: finding for finding in comparison.against[place].findings}


def kinds(comparison, place=0):
    return {metric: finding.kind for metric, finding in findings(comparison, place).items()}


def seeded(make_run, name, params=(), seeds=(1, 2, 3), spread=0.01, shift=0.0, **moved):
    """Runs of one setting with these seeds, a little apart."""
    runs = []
    for seed in seeds:
        values = {"train.seed": seed, **dict(params)}
        runs.append(make_run(f"{name}{seed}", values, shift=shift + spread * (seed % 3), **moved))
    return runs


def test_one_seed_claims_nothing_but_shows_the_difference(make_run):
    first = make_run("a")
    second = make_run("b", {"train.lr": 0.01}, shift=-0.1, noise=0.01, continuation="a dog sat")
    comparison = compare([first, second])
    assert comparison.parameters.T.to_dict() == {"train.lr": {"a": 0.003, "b": 0.01}}
    by_metric = findings(comparison)
    assert list(by_metric) == METRICS
    expected = np.exp(second.stories["nats"].sum() / second.stories["tokens"].sum())
    assert by_metric["perplexity"].difference.second == pytest.approx(expected)
    assert by_metric["perplexity"].kind == by_metric["bits_per_byte"].kind == "one seed"
    assert comparison.comparisons == 0
    assert by_metric["bits_per_byte"].difference.value == pytest.approx(-0.1 * 1.5 / 5, rel=0.1)


def test_bleu_is_better_where_it_is_higher(make_run):
    close = "the dog ran home and slept in the sun"
    plain = seeded(make_run, "a")
    near = seeded(make_run, "b", {"train.lr": 1}, continuation=close)
    assert kinds(compare([*plain, *near]), 2)["bleu4"] == "better"
    assert kinds(compare([*near, *plain]), 2)["bleu4"] == "worse"


def test_settings_are_compared_seed_by_seed_where_seeds_are_the_same(make_run):
    base = seeded(make_run, "a")
    alike = []
    for seed in (1, 2, 3):
        shift = 0.01 * (seed % 3) - 0.02 + seed / 1e3
        alike.append(make_run(f"b{seed}", {"train.lr": 1, "train.seed": seed}, shift=shift))
    apart = seeded(make_run, "c", {"train.lr": 2}, seeds=(7, 8, 9), shift=-0.1)
    comparison = compare([base[0], *alike, *base[1:], *apart])
    assert [against.name for against in comparison.against] == ["b1", "a2", "a3", "c7"]
    paired = findings(comparison, 0)["perplexity"]
    unpaired = findings(comparison, 3)["perplexity"]
    assert paired.difference.seeds.paired
    assert not unpaired.difference.seeds.paired
    assert paired.difference.seeds.error < 0.2 * unpaired.difference.seeds.error
    assert paired.kind == "better"
    assert comparison.comparisons == 4  # loss and BLEU of two settings
    assert comparison.against[0].seeds == ([1, 2, 3], [1, 2, 3])


@pytest.mark.parametrize("seed", ["train.seed", "data.seed", "decode.seed"])
def test_a_difference_between_seeds_alone_is_not_claimed(make_run, seed):
    comparison = compare([make_run("a"), make_run("b", {seed: 2}, shift=-0.2)])
    assert findings(comparison)["perplexity"].difference.high < 0
    assert kinds(comparison)["perplexity"] == "seeds only"


def test_parameters_that_decide_nothing_are_named_apart(make_run):
    first = make_run("a")
    second = make_run("b", {"runtime.threads": 8, "kv_bench.batch": 3}, shift=-0.2)
    comparison = compare([first, second])
    assert comparison.parameters.empty
    assert comparison.no_effect == ["runtime.threads", "kv_bench.batch"]
    assert kinds(comparison)["perplexity"] == "nothing differs"
    assert kinds(compare([first, make_run("b")]))["perplexity"] == "equal"


def test_other_code_or_another_parameter_is_another_setting(make_run):
    first = make_run("a")
    second = make_run("b", {"train.seed": 2}, shift=-0.2)
    assert what_differs(first, second) == "seeds"
    edited = dataclasses.replace(second, inputs={"tinylm/model": "m2", "tinylm/new.py": "n"})
    assert what_differs(first, edited) == "settings"
    assert compare([first, edited]).inputs == ["tinylm/model"]
    added = dataclasses.replace(second, params=second.params | {"train.new": None})
    assert what_differs(first, added) == "settings"
    assert compare([first, added]).parameters.loc["train.new"].tolist() == ["(none)", None]


def test_perplexity_and_bits_per_byte_are_one_hypothesis(make_run):
    runs = [*seeded(make_run, "a"), *seeded(make_run, "b", {"train.lr": 1}, shift=-0.3, noise=0.01)]
    by_metric = findings(compare(runs), 2)
    raw = [by_metric[metric].difference.p for metric in METRICS[:3]]
    assert by_metric["perplexity"].p >= max(raw)
    assert by_metric["perplexity"].p == by_metric["bits_per_byte"].p
    assert by_metric["perplexity"].kind == "better"


def with_stories(run, **columns):
    return dataclasses.replace(run, stories=run.stories.assign(**columns))


def with_samples(run, **columns):
    return dataclasses.replace(run, samples=run.samples.assign(**columns))


def test_what_two_runs_do_not_share_is_not_compared(make_run):
    first = make_run("a")
    vocabulary = make_run("b", vocabulary="other")
    normalised = with_stories(vocabulary, bytes=vocabulary.stories["bytes"] - 1)
    layout = with_stories(first, tokens=first.stories["tokens"] + np.eye(40)[3])
    prompts = with_samples(make_run("b"), prompt="another")
    references = with_samples(make_run("b"), reference="another")
    leaked = make_run("b", metrics={"evaluate": {"memorised": {"warnings": ["10 stories"]}}})
    cases = [
        (vocabulary, ["perplexity"], 1), (normalised, ["perplexity", "bits_per_byte"], 2),
        (layout, ["perplexity"], 1), (prompts, ["bleu4"], 1), (references, ["bleu4"], 1), (leaked, [], 1),
    ]  # fmt: skip
    for second, missing, notes in cases:
        against = compare([first, second]).against[0]
        metrics = [finding.metric for finding in against.findings]
        assert [metric for metric in METRICS if metric not in metrics] == missing
        assert len(against.notes) == notes


def test_the_stories_that_changed_most_come_first_with_both_continuations(make_run):
    first = make_run("a")
    second = make_run("b", continuation="a cat sat")
    nats = second.stories["nats"].to_numpy().copy()
    nats[[8, 20, 21]] += np.array([-50.0, 90.0, 900.0])  # nobody continued story 21
    changed = most_changed(first, with_stories(second, nats=nats))
    assert len(changed) == 5
    assert changed["story"].tolist()[:2] == [20, 8]
    most = changed.iloc[0]
    assert most["change"] == pytest.approx(90 / first.stories["tokens"][20])
    assert changed["change"].iloc[1] < 0
    continuations = most[["first_continuation", "second_continuation"]].tolist()
    assert continuations == ["the dog ran home", "a cat sat"]
    assert (most["prompt"], most["unit"]) == ("prompt 20", "nats per token")
    assert most_changed(first, make_run("b")).empty


def with_pairs(run, right, of=40):
    """The run with minimal pairs of two phenomena: so many of 40 right, and all 10 of another."""
    names = [("word order", i // 2, f"right {i}", f"wrong {i}") for i in range(of)]
    names += [("reflexive pronoun", i, f"right {i}", f"wrong {i}") for i in range(10)]
    index = pd.MultiIndex.from_tuples(names, names=PAIR_COLUMNS)
    answers = [1.0] * right + [0.0] * (of - right) + [1.0] * 10
    phenomena = {"word order": {"model": {"value": right / of}}}
    phenomena["reflexive pronoun"] = {"model": {"value": 1.0}}
    run.metrics["evaluate"]["pairs"] = {"phenomena": phenomena}
    return dataclasses.replace(run, pairs=pd.Series(answers, index))


def test_minimal_pairs_are_compared_pair_by_pair_as_means_over_phenomena(make_run):
    first = with_pairs(make_run("old"), 22)
    second = with_pairs(make_run("new", {"train.lr": 0.1}), 36)
    comparison = compare([first, second, make_run("before")])
    difference = findings(comparison)["minimal_pairs"].difference
    assert difference.count == 30  # draws: of 40 crossed pairs and of 10
    assert difference.first == pytest.approx((22 / 40 + 1) / 2)
    assert difference.second == pytest.approx((36 / 40 + 1) / 2)
    assert "minimal_pairs" not in findings(comparison, 1)


# settings


def names(runs):
    return [[run.name for run in setting.runs] for setting in settings_of(runs)]


def test_runs_that_differ_in_train_seed_alone_are_one_setting(make_run):
    runs = [
        make_run("a"),
        make_run("b", {"train.lr": 1}),
        make_run("c", {"train.seed": 2, "runtime.threads": 8}),
        make_run("d", {"train.lr": 1, "train.seed": 2}),
        make_run("e", {"data.seed": 2}),
        dataclasses.replace(make_run("f"), inputs={"tinylm/model": "m2"}),
    ]
    assert names(runs) == [["a", "c"], ["b", "d"], ["e"], ["f"]]
    assert list(settings_of(runs)[0].stories) == [1, 2]


@pytest.mark.parametrize("seed", [None, "one", "(none)"])
def test_a_run_without_a_seed_is_a_setting_of_its_own(make_run, seed):
    runs = [make_run("a", {"train.seed": seed}), make_run("b", {"train.seed": 2})]
    assert names(runs) == [["a"], ["b"]]


def test_a_seed_counts_once_and_the_runs_own_stories_come_first(make_run):
    more = {seed: make_run("x", shift=1.0).stories for seed in (1, 3)}
    first = dataclasses.replace(make_run("a"), more_stories=more)
    again = make_run("b", shift=2.0)
    other = make_run("c", {"train.seed": 2}, texts=["another", "text"])
    stories = Setting([first, again, other]).stories
    assert stories.keys() == {1, 3}  # those of seed 2 are of other texts
    assert stories[1] is first.stories
    assert stories[3] is more[3]
