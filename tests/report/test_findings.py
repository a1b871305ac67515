"""Each rule of the findings: what it claims, what it leaves open, and that it is silent without numbers."""

import pytest

from tinylm.report import cost_findings, findings, heads
from tinylm.report.document import all_findings
from tinylm.report.findings import relation
from tinylm.report.sources import Run


def interval(value, width=0.05):
    return {"value": value, "low": value * (1 - width), "high": value * (1 + width)}


def run_of(params=None, **files):
    return Run(params or {}, files, {})


def check(rule, run, *expected):
    """The rule yields these findings: whether each is shown, and a part of its claim or evidence."""
    result = list(rule(run))
    assert [finding.is_shown for finding in result] == [is_shown for is_shown, _ in expected]
    for finding, (_, words) in zip(result, expected):
        assert words in f"{finding.claim} {finding.evidence}"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([3, 4], [1, 2], "above"),
        ([1, 2], [3, 4], "below"),
        ([1, 3], [2, 4], "unclear"),
        ([1, 2], [2, 3], "unclear"),
        ({"value": 2, "low": 1, "high": 3}, 0, "above"),
        (1.0, [2, 3], "below"),
        (None, [2, 3], "missing"),
        ([1, None], [2, 3], "missing"),
    ],
)
def test_relation_claims_nothing_where_intervals_meet(one, other, expected):
    assert relation(one, other) == expected


def test_a_run_without_results_supports_no_claim():
    assert [finding for finding in all_findings(Run({}, {}, {})) if finding.is_shown] == []


def test_every_finding_of_a_real_run_is_a_sentence(run):
    result = all_findings(run)
    assert {finding.is_shown for finding in result} == {True, False}
    for finding in result:
        assert finding.claim.endswith(".")
        assert finding.evidence == "" or finding.evidence.endswith(".")
        assert "Tree" not in finding.claim + finding.evidence
        assert "{" not in finding.claim + finding.evidence


@pytest.mark.parametrize(
    ("ends", "is_shown", "words"),
    [
        ([6.9, 7.3], True, "The model predicts better"),
        ([9.9, 10.5], True, "does not predict better"),
        ([9.0, 10.0], False, "Whether"),
    ],
)
def test_ngrams_are_beaten_only_beyond_the_interval_over_the_same_targets(ends, is_shown, words):
    once = {"perplexity": sum(ends) / 2, "perplexity_interval": ends}
    baselines = {"kneser_ney": {"perplexity": 9.4, "order": 5}}
    for metrics in (once, {"perplexity": 20.0, "once": once}):
        run = run_of(evaluate=metrics | {"baselines": baselines})
        check(findings.compare_with_ngrams, run, (is_shown, words))


@pytest.mark.parametrize(
    ("model", "words"), [(1.8, "close to"), (2.2, "well above"), (1.6, "implausible")]
)
def test_the_floor_is_near_far_or_undercut(model, words):
    metrics = {"nats_per_token": model, "baselines": {"floor": {"nats_per_token": 1.75}}}
    check(findings.compare_with_floor, run_of(evaluate=metrics), (True, words))
    check(findings.compare_with_floor, run_of(evaluate={"nats_per_token": 2}), (False, "no known"))


@pytest.mark.parametrize(
    ("train", "last", "at", "expected"),
    [
        (1.5, 2.0, 40, ["overfits"]),
        (1.5, 1.9, 40, ["begins to overfit"]),
        (1.88, 1.9, 40, ["no sign"]),
        (1.88, 1.9, 50, ["no sign", "had not begun to rise"]),
    ],
)
def test_fit_is_judged_by_the_gap_and_the_best_update(train, last, at, expected):
    metrics = {
        "train_loss": train, "held_out_loss_last": last, "held_out_loss_best": 1.9,
        "best_update": at, "updates": 50,
    }  # fmt: skip
    check(findings.judge_fit, run_of(train=metrics), *((True, words) for words in expected))


@pytest.mark.parametrize(("layout", "is_told"), [("stories", True), ("windows", False)])
def test_stories_are_read_once_but_not_in_windows(layout, is_told):
    metrics = {"train_loss": 1.9, "held_out_loss_last": 1.9, "epochs": 0.8}
    (finding,) = findings.judge_fit(run_of({"train": {"layout": layout}}, train=metrics))
    assert ("No story was read twice" in finding.evidence) is is_told


def test_unknown_words_leave_rare_words_open_if_they_are_many():
    many = {"unknown_share": 0.05}
    check(findings.judge_unknown, run_of(evaluate={"unknown_share": 0.0005}))
    check(findings.judge_unknown, run_of(evaluate=many), (False, "rare words"))
    check(findings.judge_unknown, run_of({"vocab": {"tokenizer": "bpe"}}, evaluate=many))


def test_samples_are_compared_with_the_stories():
    samples = {"continuation_perplexity": interval(4.0), "reference_perplexity": interval(8.0)}
    memorised = {
        "continuations": {"longest_run": interval(7.1)},
        "references": {"longest_run": interval(7.0)},
    }
    run = run_of(evaluate={"samples": samples, "memorised": memorised})
    expected = (True, "more predictable"), (False, "Whether sampled text shares longer")
    check(findings.compare_samples, run, *expected)


@pytest.mark.parametrize(
    ("low", "high", "is_shown", "words"),
    [(1, 2, True, "more probable"), (-2, -1, True, "less probable"), (-1, 1, False, "Whether")],
)
def test_wider_beams_are_compared_with_greedy_by_the_paired_difference(low, high, is_shown, words):
    difference = {"value": (low + high) / 2, "low": low, "high": high}
    greedy = {"sense": {"words": interval(40)}}
    beam = {"against_greedy": {"difference": difference}, "sense": {"words": interval(20)}}
    run = run_of(beam_bench={"methods": {"greedy": greedy, "beam 1": beam, "beam 5": beam}})
    check(findings.judge_beams, run, (is_shown, words), (True, "more errors"))


def test_sense_counts_texts_and_names_the_most_frequent_error():
    decoded = {
        "texts": 50, "possible": {"value": 0.2}, "words": interval(38), "kinds": {"a": 3, "b": 9},
    }  # fmt: skip
    run = run_of(evaluate={"sense": {"methods": {"decode": decoded}}})
    check(findings.judge_sense, run, (True, "10 of 50 continuations. 38.0 (36.1 to 39.9)"))
    assert "“b”" in next(findings.judge_sense(run)).evidence


def test_minimal_pairs_have_to_beat_chance_and_an_untrained_model():
    def row(model, untrained=0.5, ngrams=0.5):
        shares = {"model": model, "untrained": untrained, "kneser_ney": ngrams}
        return {name: interval(share) for name, share in shares.items()}

    phenomena = {
        "learnt": row(0.9), "wrong": row(0.2), "luck": row(0.6, untrained=0.6),
        "counted": row(0.7, ngrams=0.9), "not measured": {"model": None},
    }  # fmt: skip
    pairs = {"phenomena": phenomena, "all": {"model": 0.6}}
    expected = (
        (True, "60.0 %"), (True, "learnt, counted."), (True, "wrong."), (False, "luck."),
        (True, "learnt, luck."), (True, "wrong, counted."),
    )  # fmt: skip
    check(findings.judge_pairs, run_of(evaluate={"pairs": pairs}), *expected)


def test_a_small_difference_is_real_only_beyond_that_of_the_seeds():
    check(findings.limits, run_of(), (False, "one seed"))
    seeds = {"n": 3, "perplexity": {"mean": 9.0, "sd": 0.1, "difference": 0.4}}
    check(findings.limits, run_of(seeds=seeds), (True, "less than 0.400"))


# ---------------------------------------------------------------- heads

ROLES = [
    {"role": "previous token", "layer": 1, "head": 1, "score": 0.9, "baseline": 0.1, "claimed": True},
    {"role": "subject-verb", "layer": 1, "head": 2, "score": 0.2, "baseline": 0.15, "claimed": False},
    {"role": "subject-verb", "layer": 1, "head": 1, "score": 0.1, "baseline": 0.15, "claimed": False},
]  # fmt: skip
ABLATION = [
    {"layer": 1, "head": 1, "loss_increase": 0.5, "low": 0.4, "high": 0.6},
    {"layer": 1, "head": 2, "loss_increase": 0.01, "low": -0.1, "high": 0.1},
]


def test_roles_are_claimed_or_left_open():
    expected = (True, "layer 1, head 1: 0.90 against 0.10"), (False, "subject-verb")
    check(heads.judge_roles, run_of(roles=ROLES), *expected)


def test_each_head_has_its_best_role_and_is_idle_if_the_interval_contains_0():
    table = heads.heads(run_of(roles=ROLES, ablation=ABLATION))
    assert table["role"].tolist() == ["previous token", "subject-verb"]
    assert table["idle"].tolist() == [False, True]
    assert heads.heads(run_of(roles=ROLES))["idle"].tolist() == [False, False]
    assert heads.heads(run_of(ablation=ABLATION))["role"].isna().all()


def test_the_most_needed_head_and_the_idle_ones():
    expected = (True, "layer 1, head 1"), (True, "1 of 2 heads")
    check(heads.judge_ablation, run_of(ablation=ABLATION), *expected)


# ---------------------------------------------------------------- costs


def timed(key, value, low, high, **more):
    return {key: value, f"low_{key}": low, f"high_{key}": high, **more}


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((100, 98, 102), (50, 48, 52), True),
        ((100, 90, 110), (70, 60, 80), False),
        ((100, 90, 110), (105, 95, 115), False),
        ((100, 100, 100), (50, 50, 50), None),
    ],
)
def test_trials_part_only_if_their_gap_is_larger_than_their_spread(one, other, expected):
    first, second = timed("s", *one), timed("s", *other)
    assert cost_findings.trials_differ(first, second, "s") is expected
    assert cost_findings.trials_differ({"s": 1}, second, "s") is None


def test_the_caches_speed_is_claimed_where_trials_part():
    cache = timed("tokens_per_s", 100, 98, 102, new_tokens=64, rows=1, cache=True)
    slower = timed("tokens_per_s", 20, 19, 21, new_tokens=64, rows=1, cache=False)
    unclear = timed("tokens_per_s", 90, 50, 130, new_tokens=64, rows=1, cache=False)
    same = {"same_ids": True}
    run = run_of(kv_bench_time={"settings": [cache, slower]}, kv_bench=same)
    check(cost_findings.judge_cache, run, (True, "faster"), (True, "the same tokens"))
    run = run_of(kv_bench_time={"settings": [cache, unclear]})
    check(cost_findings.judge_cache, run, (False, "64 new tokens"))


def test_recomputation_is_judged_at_the_greatest_depth():
    settings = [
        timed("step_s", 1.3, 1.29, 1.31, layers=8, recompute=True, peak_mib=100),
        timed("step_s", 1.0, 0.99, 1.01, layers=8, recompute=False, peak_mib=300),
        {"layers": 2, "recompute": True, "peak_mib": 90},
    ]
    same = {"same_loss": True, "same_gradients": True}
    run = run_of(ckpt_bench_time={"settings": settings}, ckpt_bench=same)
    check(cost_findings.judge_recompute, run, (True, "1.3 times"), (True, "the last bit"))
