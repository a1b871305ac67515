"""Each rule of the findings: what it claims, what it leaves open, and that it says nothing without numbers."""

import pytest

from tinylm.report import cost_findings, findings, heads
from tinylm.report.document import all_findings
from tinylm.report.findings import Finding, relation
from tinylm.report.sources import Run


def interval(value, width=0.05):
    return {"value": value, "low": value * (1 - width), "high": value * (1 + width)}


def run_with(name, metrics, params=None, **more):
    return Run(params or {}, {name: metrics, **more}, {})


def verdicts(rule, run) -> list[tuple[bool, str]]:
    """(is it shown, its claim) of each finding of a rule; each is a claim with no open format."""
    result = rule(run)
    assert all(isinstance(finding, Finding) and finding.claim.endswith(".") for finding in result)
    assert not any("{" in finding.claim + finding.evidence for finding in result)
    return [(finding.is_shown, finding.claim) for finding in result]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([3, 4], [1, 2], "above"),
        ([1, 2], [3, 4], "below"),
        ([1, 3], [2, 4], "unclear"),
        ([1, 2], [2, 3], "unclear"),
        ({"value": 2, "low": 1, "high": 3}, 0, "above"),
        (1.0, [2, 3], "below"),
        (None, [2, 3], "unclear"),
        ([1, None], [2, 3], "unclear"),
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
        ([6.9, 7.3], True, "beats"),
        ([9.9, 10.5], True, "does not beat"),
        ([9.0, 10.0], False, "Whether"),
    ],
)
def test_ngrams_are_beaten_only_beyond_the_interval(ends, is_shown, words):
    metrics = {
        "perplexity": sum(ends) / 2,
        "perplexity_interval": ends,
        "baselines": {"kneser_ney": {"perplexity": 9.4, "order": 5}},
    }
    ((shown, claim),) = verdicts(findings.compare_with_ngrams, run_with("evaluate", metrics))
    assert shown is is_shown
    assert words in claim


def test_ngrams_are_compared_over_the_same_targets():
    kneser_ney = {"kneser_ney": {"perplexity": 9.4, "order": 5}}
    metrics = {"perplexity": 20.0, "once": {"perplexity": 7.0, "perplexity_interval": [6, 8]}}
    run = run_with("evaluate", metrics | {"baselines": kneser_ney})
    assert "beats" in verdicts(findings.compare_with_ngrams, run)[0][1]


@pytest.mark.parametrize(
    ("model", "words"), [(1.8, "close to"), (2.2, "well above"), (1.6, "implausible")]
)
def test_the_floor_is_near_far_or_undercut(model, words):
    metrics = {"nats_per_token": model, "baselines": {"floor": {"nats_per_token": 1.75}}}
    ((shown, claim),) = verdicts(findings.compare_with_floor, run_with("evaluate", metrics))
    assert shown
    assert words in claim


def test_text_without_a_floor_leaves_the_question_open():
    run = run_with("evaluate", {"nats_per_token": 2.0})
    assert [shown for shown, _ in verdicts(findings.compare_with_floor, run)] == [False]


@pytest.mark.parametrize(
    ("train", "last", "best", "at", "words"),
    [
        (1.5, 2.0, 1.9, 40, ["overfits"]),
        (1.5, 1.9, 1.9, 40, ["begins to overfit"]),
        (1.88, 1.9, 1.9, 40, ["no sign"]),
        (1.88, 1.9, 1.9, 50, ["no sign", "had not begun to rise"]),
    ],
)
def test_fit_is_judged_by_the_gap_and_the_best_update(train, last, best, at, words):
    metrics = {
        "train_loss": train, "held_out_loss_last": last, "held_out_loss_best": best,
        "best_update": at, "updates": 50,
    }  # fmt: skip
    claims = [claim for _, claim in verdicts(findings.judge_fit, run_with("train", metrics))]
    assert len(claims) == len(words)
    assert all(word in claim for word, claim in zip(words, claims))


@pytest.mark.parametrize(("layout", "is_said"), [("stories", True), ("windows", False)])
def test_stories_are_read_once_but_not_in_windows(layout, is_said):
    metrics = {"train_loss": 1.9, "held_out_loss_last": 1.9, "epochs": 0.8}
    (finding,) = findings.judge_fit(run_with("train", metrics, {"train": {"layout": layout}}))
    assert ("No story was read twice" in finding.evidence) is is_said


def test_unknown_words_flatter_the_perplexity_if_they_are_many():
    few, many = ({"unknown_share": share} for share in (0.0005, 0.05))
    assert verdicts(findings.judge_unknown, run_with("evaluate", few))[0][0]
    assert not verdicts(findings.judge_unknown, run_with("evaluate", many))[0][0]
    pieces = {"vocab": {"tokenizer": "bpe"}}
    assert verdicts(findings.judge_unknown, run_with("evaluate", many, pieces)) == []


def test_samples_are_compared_with_the_stories():
    samples = {
        "continuation_perplexity": interval(4.0), "reference_perplexity": interval(8.0),
        "repeated_4grams_interval": [0.05, 0.09], "reference_repeated_4grams_interval": [0.04, 0.06],
    }  # fmt: skip
    run = run_with("evaluate", {"samples": samples})
    (first, claim), (second, _) = verdicts(findings.compare_samples, run)
    assert (first, second) == (True, False)
    assert "more predictable" in claim


@pytest.mark.parametrize(
    ("longest", "shown", "word"),
    [(9.0, True, "longer"), (5.0, True, "shorter"), (7.1, False, "Whether")],
)
def test_memorisation_is_relative_to_the_stories_own_runs(longest, shown, word):
    sides = {
        "continuations": {"longest_run": interval(longest)},
        "references": {"longest_run": interval(7.0)},
    }
    ((is_shown, claim),) = verdicts(
        findings.judge_memorised, run_with("evaluate", {"memorised": sides})
    )
    assert is_shown is shown
    assert word in claim


def test_bleu_shows_no_small_difference_with_few_samples():
    few, many = ({"samples": {"count": n, "bleu4": interval(0.1)}} for n in (50, 500))
    assert [shown for shown, _ in verdicts(findings.judge_bleu, run_with("evaluate", few))] == [
        False
    ] * 2
    assert len(findings.judge_bleu(run_with("evaluate", many))) == 1


@pytest.mark.parametrize(
    ("low", "high", "shown", "word"),
    [(1, 2, True, "more"), (-2, -1, True, "less"), (-1, 1, False, "Whether")],
)
def test_wider_beams_are_compared_with_greedy_by_the_paired_difference(low, high, shown, word):
    difference = {"value": (low + high) / 2, "low": low, "high": high}
    methods = {"greedy": {}, "beam 1": {"against_greedy": {"difference": difference}}}
    methods["beam 5"] = {"against_greedy": {"difference": difference, "prompts": 10}}
    ((is_shown, claim),) = verdicts(
        findings.judge_beams, run_with("beam_bench", {"methods": methods})
    )
    assert is_shown is shown
    assert word in claim


def test_sense_counts_possible_texts_and_compares_beams():
    def method(words):
        return {
            "texts": 50,
            "possible": {"value": 0.2},
            "words": interval(words),
            "kinds": {"plot": 3},
        }

    beams = {"methods": {"greedy": {"sense": method(40)}, "beam 5": {"sense": method(41)}}}
    run = run_with("evaluate", {"sense": {"methods": {"decode": method(38)}}}, beam_bench=beams)
    (first, claim), (second, _) = verdicts(findings.judge_sense, run)
    assert (first, second) == (True, False)
    assert claim.startswith("10 of 50")


def test_minimal_pairs_have_to_beat_chance_and_an_untrained_model():
    def row(model, untrained=0.5, ngrams=0.5):
        return {
            "model": interval(model),
            "untrained": interval(untrained),
            "kneser_ney": interval(ngrams),
        }

    phenomena = {
        "known": row(0.9),
        "wrong": row(0.2),
        "luck": row(0.6, untrained=0.6),
        "counted": row(0.7, ngrams=0.9),
    }
    pairs = {"phenomena": phenomena | {"not measured": {"model": None}}, "all": {"model": 0.6}}
    result = findings.judge_pairs(run_with("evaluate", {"pairs": pairs}))
    evidence = {finding.claim.split(" in ")[0]: finding.evidence for finding in result}
    assert "In 2 phenomena" in result[0].evidence
    assert "wrong" in evidence["It prefers the wrong sentence"]
    assert [finding.evidence for finding in result if not finding.is_shown] == ["luck (60.0 %)."]
    assert evidence["N-grams are right more often than it"] == "wrong, counted."


def test_limits_name_the_seed_and_why_losses_may_differ():
    metrics = {"perplexity": 9.0}
    one = run_with(
        "evaluate", metrics, train={"held_out_perplexity": 7.0, "held_out_loss_best": 2.197}
    )
    assert [shown for shown, _ in verdicts(findings.limits, one)] == [False] * 3
    seeds = {"n": 3, "perplexity": {"mean": 9.0, "sd": 0.1, "difference": 0.4}}
    (shown, claim), *_ = verdicts(findings.limits, run_with("evaluate", metrics, seeds=seeds))
    assert shown
    assert "less than 0.400" in claim


# ---------------------------------------------------------------- heads

ROLES = [
    {"role": "previous token", "layer": "1", "head": "1", "score": "0.9", "baseline": "0.1", "claimed": "True"},
    {"role": "subject-verb", "layer": "1", "head": "2", "score": "0.2", "baseline": "0.15", "claimed": "False"},
]  # fmt: skip
ABLATION = [
    {"layer": "1", "head": "1", "loss_increase": "0.5", "low": "0.4", "high": "0.6"},
    {"layer": "1", "head": "2", "loss_increase": "0.01", "low": "-0.1", "high": "0.1"},
]
MARGIN = {"heads": {"margin": 0.1}}


def test_roles_are_claimed_or_left_open():
    run = run_with("evaluate", MARGIN, roles=ROLES)
    first, second = heads.judge_roles(run)
    assert first.is_shown
    assert "layer 1, head 1: 0.90 against 0.10" in first.evidence
    assert not second.is_shown
    assert "subject-verb" in second.evidence


def test_the_most_needed_head_and_the_idle_ones():
    run = run_with("evaluate", MARGIN, ablation=ABLATION)
    claims = verdicts(heads.judge_ablation, run)
    assert [shown for shown, _ in claims] == [True, True]
    assert "layer 1, head 1" in claims[0][1]
    assert claims[1][1].startswith("1 of 2 heads")


@pytest.mark.parametrize(
    ("low", "high", "shown", "word"),
    [(0.5, 1.5, True, "better"), (-0.2, 0.3, False, "Whether"), (-2, -1, True, "worse")],
)
def test_copying_is_claimed_only_where_the_interval_excludes_0(low, high, shown, word):
    saved = {"value": (low + high) / 2, "low": low, "high": high}
    run = run_with("evaluate", {"heads": {"induction": {"saved": saved}}})
    ((is_shown, claim),) = verdicts(heads.judge_copying, run)
    assert is_shown is shown
    assert word in claim


def test_a_role_is_dated_by_when_it_comes_to_stay():
    rows = [
        {"epochs": epochs, "layer": "1", "head": "1", "previous token": score}
        for epochs, score in (("0.1", "0.2"), ("0.2", "0.01"), ("0.5", "0.3"), ("", "0.8"))
    ]
    run = run_with("evaluate", MARGIN, roles=ROLES, heads_training=rows, train={"epochs": 1.0})
    (finding,) = heads.judge_roles_in_training(run)
    assert "previous token after 0.50 epochs" in finding.evidence


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
    settings = [
        timed("tokens_per_s", 100, 98, 102, new_tokens=64, cache=True),
        timed("tokens_per_s", 20, 19, 21, new_tokens=64, cache=False),
        timed("tokens_per_s", 100, 60, 140, new_tokens=8, cache=True),
        timed("tokens_per_s", 90, 50, 130, new_tokens=8, cache=False),
    ]
    run = run_with("kv_bench_time", {"settings": settings}, kv_bench={"same_ids": True})
    claims = verdicts(cost_findings.judge_cache, run)
    assert [shown for shown, _ in claims] == [False, True, True]
    assert "64 new tokens" in claims[1][1]
    assert "faster" in claims[1][1]


def test_one_seed_shows_no_best_accumulation():
    settings = {
        n: {"held_out_loss_at_equal_tokens": value} for n, value in (("1", 2.0), ("4", 1.9))
    }
    run = run_with("accum_sweep", {"settings": settings, "budget_tokens": 1e6})
    (finding,) = cost_findings.judge_accumulation(run)
    assert not finding.is_shown
    assert "4 has the lowest (1.900)" in finding.evidence


def test_recomputation_is_judged_at_the_greatest_depth():
    settings = [
        timed("step_s", 1.3, 1.29, 1.31, layers=8, recompute=True, peak_mib=100),
        timed("step_s", 1.0, 0.99, 1.01, layers=8, recompute=False, peak_mib=300),
        {"layers": 2, "recompute": True, "peak_mib": 90},
    ]
    same = {"same_loss": True, "same_gradients": True}
    run = run_with("ckpt_bench_time", {"settings": settings}, ckpt_bench=same)
    first, second = cost_findings.judge_recompute(run)
    assert first.claim == "Gradient checkpointing saves memory."
    assert "1.3 times" in first.evidence
    assert second.is_shown
