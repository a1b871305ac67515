"""Each rule says one thing for these numbers and the other for those."""

import copy
from typing import Any

import pytest

from tinylm.report.cost_findings import (
    judge_accumulation,
    judge_cache,
    judge_recompute,
    judge_timings,
    times_of,
)
from tinylm.report.findings import (
    compare_with_baselines,
    compare_with_floor,
    findings,
    judge_fit,
    judge_unknown,
    limits,
)
from tinylm.report.heads import (
    Head,
    Role,
    heads,
    judge_ablation,
    judge_heads,
    judge_roles,
)
from tinylm.report.sources import Run
from tinylm.report.text_findings import compare_samples, judge_beams, judge_bleu, judge_memorised


def _evaluate(**changes: Any) -> Run:
    figures: dict[str, Any] = {
        "perplexity": 7.0,
        "nats_per_token": 1.946,
        "perplexity_interval": [6.8, 7.2],
        "unknown_share": 0.001,
        "baselines": {
            "kneser_ney": {"order": 5, "perplexity": 9.1},
            "floor": {"nats_per_token": 1.70},
        },
    }
    return Run({}, {"evaluate": figures | changes}, {})


def _text(found: list) -> str:
    return " ".join(finding.text for finding in found)


@pytest.mark.parametrize(
    ("other", "expected", "claim"),
    [
        (9.1, "lower by the factor 1.30", True),
        (5.6, "does not beat", True),
        (7.1, "is open", False),
    ],
)
def test_beating_kneser_ney_depends_on_the_interval(other, expected, claim):
    (finding,) = compare_with_baselines(
        _evaluate(baselines={"kneser_ney": {"order": 5, "perplexity": other}})
    )
    assert expected in finding.text
    assert finding.claim is claim


ONCE = {"perplexity": 6.0, "nats_per_token": 1.792, "perplexity_interval": [5.9, 6.1]}


@pytest.mark.parametrize(
    ("other", "expected"), [(9.1, "factor 1.52"), (6.5, "beats"), (5.0, "not"), (6.05, "5.90 to")]
)
def test_windows_meet_the_baselines_with_each_target_scored_once(other, expected):
    (finding,) = compare_with_baselines(
        _evaluate(once=ONCE, baselines={"kneser_ney": {"order": 5, "perplexity": other}})
    )
    assert expected in finding.text
    assert "each target scored once; the 7.00 over every window of stride 1" in finding.text
    (finding,) = compare_with_floor(_evaluate(once=ONCE))
    assert "0.092 nats" in finding.text


def test_the_same_text_is_not_called_different_stories():
    run = Run({}, _evaluate().found | {"train": {"held_out_loss_best": 1.0}}, {})
    assert "different stories" in _text(limits(run))
    run.found["vocab"] = {"split": {"notes": ["evaluation is the held-out tokens"]}}
    assert "the same text" in _text(limits(run))
    assert "different stories" not in _text(limits(run))


@pytest.mark.parametrize(
    ("floor", "expected"),
    [(1.70, "well above"), (1.90, "close to"), (2.2, "below the generator's own floor")],
)
def test_distance_to_the_floor(floor, expected):
    (finding,) = compare_with_floor(_evaluate(baselines={"floor": {"nats_per_token": floor}}))
    assert expected in finding.text


def test_text_without_a_floor_gets_no_claim():
    (finding,) = compare_with_floor(_evaluate(baselines={}))
    assert not finding.claim


@pytest.mark.parametrize(
    ("train", "last", "best", "best_update", "expected"),
    [
        (1.9, 1.95, 1.95, 600, "no sign of overfitting"),
        (1.6, 1.95, 1.95, 600, "begins to overfit"),
        (1.6, 2.10, 1.95, 400, "has risen since"),
    ],
)
def test_fit_follows_from_gap_and_best_update(train, last, best, best_update, expected):
    figures = {"train_loss": train, "held_out_loss_last": last, "held_out_loss_best": best}
    text = _text(
        judge_fit(Run({}, {"train": figures | {"best_update": best_update, "updates": 600}}, {}))
    )
    assert expected in text
    assert ("had not begun to rise" in text) is (best_update == 600)


@pytest.mark.parametrize(("unknown", "claim"), [(0.0, True), (0.03, False)])
def test_unknown_words(unknown, claim):
    (finding,) = judge_unknown(_evaluate(unknown_share=unknown))
    assert finding.claim is claim


@pytest.mark.parametrize(
    ("own", "expected", "claim"),
    [
        ((4, 3.8, 4.2), "safer text", True),
        ((9, 8.5, 9.5), "less predictable", True),
        ((7, 5, 8), "overlap", False),
    ],
)
def test_overlapping_intervals_support_no_claim(own, expected, claim):
    samples = {
        "continuation_perplexity": dict(zip(("value", "low", "high"), own)),
        "reference_perplexity": {"value": 7.0, "low": 6.5, "high": 7.5},
    }
    (finding,) = compare_samples(_evaluate(samples=samples))
    assert expected in finding.text
    assert finding.claim is claim


def _copies(longest: tuple[float, float, float], whole: int = 0) -> dict:
    ends = dict(zip(("value", "low", "high"), longest))
    return {"longest_run": ends, "count": 50, "whole": whole, "new": {"4": {"value": 0.4}}}


@pytest.mark.parametrize(
    ("own", "expected", "claim"),
    [
        ((12.0, 10.1, 14.0), "shares longer runs with train", True),
        ((6.0, 5.0, 7.9), "shares shorter runs with train", True),
        ((10.0, 9.0, 11.0), "the longest runs overlap", False),
    ],
)
def test_copying_is_claimed_where_runs_are_longer_than_those_of_the_stories(own, expected, claim):
    memorised = {"continuations": _copies(own), "references": _copies((9.0, 8.0, 10.0))}
    (finding,) = judge_memorised(_evaluate(memorised=memorised))
    assert expected in finding.text
    assert "40.0 % of its 4-grams are new, against 40.0 %" in finding.text
    assert finding.claim is claim


@pytest.mark.parametrize("strange", [3, "many", [1, 2], {"4": 3}, {"4": [1]}, None])
def test_damaged_figures_of_copying_leave_out_what_they_say(strange):
    memorised = {
        "continuations": _copies((9.0, 8.0, 10.0)) | {"new": strange},
        "references": _copies((9.0, 8.0, 10.0)),
    }
    assert "4-grams are new" not in _text(judge_memorised(_evaluate(memorised=memorised)))
    memorised["continuations"]["longest_run"] = strange
    judge_memorised(_evaluate(memorised=memorised))  # and raises nothing


def test_texts_that_stand_in_train_word_for_word_are_named():
    memorised = {
        "continuations": _copies((9.0, 8.0, 10.0), whole=2),
        "references": _copies((9.0, 8.0, 10.0)),
    }
    assert "2 of 50 continuations occur word for word" in _text(
        judge_memorised(_evaluate(memorised=memorised))
    )
    assert judge_memorised(_evaluate(memorised={"continuations": {"count": 0, "words": 0}})) == []


def test_several_seeds_say_which_difference_may_be_chance():
    run = _evaluate()
    (alone, *_) = limits(run)
    assert not alone.claim
    assert "one run with one seed" in alone.text
    run.found["seeds"] = {"n": 3, "perplexity": {"mean": 7.1, "sd": 0.052, "difference": 0.316}}
    (several, *_) = limits(run)
    assert several.claim
    assert "Over 3 seeds the perplexity is 7.10 ± 0.0520" in several.text
    assert "differ by less than 0.316 may" in several.text


def test_bleu_of_few_samples_says_little():
    few, many = (
        judge_bleu(_evaluate(samples={"count": n, "bleu4": {"value": 4, "low": 2, "high": 6}}))
        for n in (50, 2000)
    )
    assert "says little with 50 continuations" in _text(few)
    assert "interval here is 2.00 to 6.00" in _text(few)
    assert "says little" not in _text(many)
    assert len(many) == 1


@pytest.mark.parametrize(
    ("low", "high", "claim", "expected"),
    [
        (
            0.5,
            2.5,
            True,
            "width 10 finds more probable text on average: the log-probability of a text less that of greedy",
        ),
        (
            -2.5,
            -0.5,
            True,
            "width 10 finds less probable text on average: the log-probability of a text less that of greedy",
        ),
        (
            -1.0,
            2.0,
            False,
            "Whether beam search with width 10 finds more probable text: the interval of the difference",
        ),
    ],
)
def test_a_beam_is_compared_with_greedy_decoding_prompt_by_prompt(low, high, claim, expected):
    def row(value: float, low: float, high: float) -> dict:
        return {
            "against_greedy": {
                "prompts": 10,
                "higher": 7,
                "lower": 3,
                "difference": {"value": value, "low": low, "high": high},
            }
        }

    methods = {
        "sampling": row(-9.0, -10.0, -8.0), "greedy": row(0.0, 0.0, 0.0), "beam 1": row(0.0, 0.0, 0.0),
        "beam 10": row((low + high) / 2, low, high), "beam 20": {"log_prob_per_token": -1.0}
    }  # fmt: skip
    (finding,) = judge_beams(Run({}, {"beam_bench": {"prompts": 10, "methods": methods}}, {}))
    assert expected in finding.text
    assert "higher for 7 and lower for 3 of 10 prompts" in finding.text
    assert finding.claim is claim


@pytest.mark.parametrize(
    ("own", "claim", "expected"),
    [
        ([0.30, 0.40], True, "repeats itself more often than the stories: 5.0 % of its 4-grams"),
        ([0.01, 0.02], True, "repeats itself less often than the stories: 5.0 % of its 4-grams"),
        (
            [0.01, 0.12],
            False,
            "Whether sampled text repeats itself more than the stories: the intervals overlap",
        ),
    ],
)
def test_repetition_is_claimed_where_the_intervals_part(own, claim, expected):
    samples = {
        "repeated_4grams": 0.05,
        "repeated_4grams_interval": own,
        "reference_repeated_4grams": 0.15,
        "reference_repeated_4grams_interval": [0.1, 0.2],
    }
    (finding,) = compare_samples(_evaluate(samples=samples))
    assert expected in finding.text
    assert finding.claim is claim
    samples.pop("repeated_4grams_interval")
    assert compare_samples(_evaluate(samples=samples)) == []


def _heads(previous: str, interpretation: str) -> Run:
    row = {
        "layer": "1",
        "head": "1",
        "previous": previous,
        "previous_even": "0.05",
        "interpretation": interpretation,
    }
    return Run(
        {},
        {
            "heads": [
                row,
                row | {"head": "2", "previous": "0.05", "interpretation": "spread evenly"},
            ]
        },
        {},
    )


def test_heads_that_stand_out_are_named():
    text = _text(judge_heads(_heads("0.60", "the previous token: 60%")))
    assert "previous token (layer 1, head 1: 60.0 % of the weight, 5.0 % if spread evenly)" in text
    assert "1 of 2 heads" in text
    nothing = _heads(
        "0.08", "tokens of no measured kind: about 8.8 at a time (51.4 if spread evenly)"
    )
    assert "2 of 2 heads show no measured tendency" in _text(judge_heads(nothing))
    assert "No head has a measured tendency" in _text(judge_heads(nothing))
    assert "No head has a measured tendency" in _text(judge_heads(_heads("0.08", "spread evenly")))


def test_roles_are_named_where_they_stand_out_from_position_alone():
    rows = [
        {"layer": "1", "head": "1", "role": "previous token", "score": "0.70", "baseline": "0.61"},
        {
            "layer": "1",
            "head": "2",
            "role": "previous token",
            "score": "0.50",
            "baseline": "0.30",
            "claimed": "True",
        },
        {"layer": "1", "head": "2", "role": "subject-verb", "score": "0.40", "baseline": "0.35"},
    ]
    text = _text(judge_roles(Run({}, {"roles": rows}, {})))
    assert "previous token (layer 1, head 2: 0.50 against a baseline of 0.30)" in text
    assert "No head fits these roles better than that baseline: subject-verb." in text


def _ablated(low: float, high: float) -> Run:
    row = {
        "layer": "2",
        "head": "1",
        "loss_increase": str((low + high) / 2),
        "low": str(low),
        "high": str(high),
    }
    idle = {"layer": "1", "head": "1", "loss_increase": "0.001", "low": "-0.001", "high": "0.003"}
    return Run({}, {"ablation": [idle, row]}, {})


def test_ablation_names_the_head_that_is_needed_and_counts_the_idle():
    text = _text(judge_ablation(_ablated(0.1, 0.3)))
    assert (
        "needs layer 2, head 1 most: without it the loss rises by 0.200 nats per token (0.100 to 0.300)"
        in text
    )
    assert "1 of 2 heads can be ablated" in text
    assert "2 of 2 heads can be ablated" in (text := _text(judge_ablation(_ablated(-0.1, 0.3))))
    assert "most" not in text.split("without a change")[0]


def test_roles_of_a_head_stand_best_first_and_a_claimed_one_before_any_other():
    rows = [
        {
            "layer": "1",
            "head": "1",
            "role": role,
            "score": score,
            "baseline": "0.1",
            "claimed": claimed,
        }
        for role, score, claimed in (
            ("a", "0.3", "True"),
            ("b", "0.9", "False"),
            ("c", "0.5", "True"),
        )
    ]
    (head,) = heads(Run({}, {"roles": rows}, {}))
    assert [role.name for role in head.roles] == ["c", "a", "b"]
    assert (head.claimed(), head.name()) == (["c", "a"], "c")


@pytest.mark.parametrize(
    ("ends", "claimed", "name", "verdict"),
    [
        ((0.1, 0.05, 0.15), True, "subject-verb", "needed"),
        ((0.1, 0.05, 0.15), False, "", "needed"),
        ((0.01, -0.05, 0.07), True, "idle", "idle: no measurable change"),
        ((-0.1, -0.2, -0.05), True, "subject-verb", "the model is better without it"),
        ((None, None, None), True, "subject-verb", "not measured"),
    ],
)
def test_a_head_is_called_by_its_role_unless_it_is_idle(ends, claimed, name, verdict):
    head = Head(1, 2, (Role("subject-verb", 1, 2, 0.5, 0.2, 9, claimed),), *ends)
    assert (head.name(), head.verdict()) == (name, verdict)


def _cache(low: float, high: float) -> Run:
    settings = [
        {
            "new_tokens": 64,
            "cache": True,
            "tokens_per_s": 300.0,
            "low_tokens_per_s": 280.0,
            "high_tokens_per_s": 320.0,
        },
        {
            "new_tokens": 64,
            "cache": False,
            "tokens_per_s": (low + high) / 2,
            "low_tokens_per_s": low,
        }
        | {"high_tokens_per_s": high},
    ]
    return Run({}, {"kv_bench_time": {"settings": settings}, "kv_bench": {"same_ids": True}}, {})


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (90.0, 110.0, "3.0 times as fast"),
        (390.0, 410.0, "slower, 0.75"),
        (270.0, 281.0, "no difference can be told"),
        (319.0, 500.0, "no difference can be told"),
    ],
)
def test_cache(low, high, expected):
    (finding,) = judge_cache(_cache(low, high))
    assert expected in finding.text
    assert "Both generated the same tokens" in finding.text


def test_accumulation_names_the_lowest_loss_of_each_comparison():
    rows = {
        "1": {"held_out_loss_at_equal_tokens": 2.0, "held_out_loss_at_equal_updates": 4.0},
        "8": {"held_out_loss_at_equal_tokens": 3.0, "held_out_loss_at_equal_updates": 3.5},
    }
    text = _text(
        judge_accumulation(Run({}, {"accum_sweep": {"settings": rows, "budget_tokens": 9}}, {}))
    )
    assert "the same tokens accumulation 1 has the lowest" in text
    assert "the same number of updates accumulation 8 has the lowest" in text


@pytest.mark.parametrize(
    ("peak", "same", "expected"),
    [
        (50.0, True, ("saves memory", "to the last bit")),
        (120.0, False, ("saves no memory", "differ")),
    ],
)
def test_recomputation_is_judged_at_the_greatest_depth(peak, same, expected):
    costs = {
        (8, True): (peak, 0.13),
        (8, False): (100.0, 0.10),
        (2, True): (1.0, 1.0),
        (2, False): (1.0, 9.0),
    }
    settings = [
        {"layers": layers, "recompute": recompute, "peak_mib": memory, "step_s": step}
        | {"low_step_s": 0.99 * step, "high_step_s": 1.01 * step}
        for (layers, recompute), (memory, step) in costs.items()
    ]
    exact = {"same_loss": same, "same_gradients": same}
    text = _text(
        judge_recompute(
            Run({}, {"ckpt_bench_time": {"settings": settings}, "ckpt_bench": exact}, {})
        )
    )
    assert all(part in text for part in expected)
    assert "1.30 times the time" in text


@pytest.mark.parametrize(
    ("high", "told"), [(0.12, "1.30 times the time of a step"), (0.14, "no difference in time can")]
)
def test_times_whose_trials_overlap_are_not_compared(high, told):
    settings = [
        {
            "layers": 4,
            "recompute": on,
            "peak_mib": 9.0,
            "step_s": step,
            "low_step_s": low,
            "high_step_s": top,
        }
        for on, low, step, top in ((True, 0.125, 0.13, 0.15), (False, 0.09, 0.10, high))
    ]
    assert told in _text(judge_recompute(Run({}, {"ckpt_bench_time": {"settings": settings}}, {})))


@pytest.mark.parametrize("spread", [{}, {"low_step_s": 0.1, "high_step_s": 0.1}])
def test_times_that_were_measured_once_are_not_compared(spread):
    settings = [
        {"layers": 4, "recompute": on, "peak_mib": 9.0, "step_s": 0.1} | spread
        for on in (True, False)
    ]
    assert "each was measured once" in _text(
        judge_recompute(Run({}, {"ckpt_bench_time": {"settings": settings}}, {}))
    )
    assert times_of(*settings, "step_s") == "measured once"


def test_timings_name_the_machine():
    run = Run(
        {}, {"train_time": {"conditions": {"cpu": "Example", "device": "cpu", "threads": 2}}}, {}
    )
    assert "(Example, 2 threads)" in _text(judge_timings(run))


def test_generated_text_is_named_as_a_limit_only_where_it_was_used():
    said = {
        source: _text(limits(Run({"data": {"source": source}}, {}, {})))
        for source in ("storybook", "hub")
    }
    assert "evaluated on generated ones" in said["storybook"]
    assert "generated ones" not in said["hub"]


def test_a_run_without_files_supports_no_claim():
    assert not any(finding.claim for finding in findings(Run({}, {}, {})))


def test_damaged_figures_never_raise(run: Run, params: dict):
    """Every JSON value in turn replaced by null, by text and by a list: rules fall silent, none fails."""
    for name, value in run.found.items():
        if not isinstance(value, dict):
            continue
        for key in value:
            for wrong in (None, "text", [1, "x"], {}):
                found = copy.copy(run.found) | {name: value | {key: wrong}}
                assert isinstance(findings(Run(params, found, {})), list)
