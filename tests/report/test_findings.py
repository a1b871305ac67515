"""Each rule of the findings: what it claims, what it leaves open, and that it is silent without numbers."""

import numpy as np
import pandas as pd
import pytest

from tinylm.report.findings import findings_by_section, questions
from tinylm.report.heads import heads
from tinylm.report.sources import ReportData

HEADS, PROMPTS, STORIES = 16, 50, 500


def interval(value, half=0.05):
    return {"value": value, "low": value - half, "high": value + half}


def run_of(params=None, **files):
    return ReportData(params or {}, files, {})


def all_findings(run):
    return [finding for section in findings_by_section(run).values() for finding in section]


def check(section, run, *expected):
    """The section has findings of these kinds, each with a part of its claim or evidence."""
    result = findings_by_section(run)[section]
    kinds = ["shown" if finding.is_shown else "open" for finding in result]
    assert kinds == [kind for kind, _ in expected]
    for finding, (_, words) in zip(result, expected):
        assert words in f"{finding.claim} {finding.evidence}"


def test_a_run_without_results_supports_no_claim():
    assert not any(finding.is_shown for finding in all_findings(ReportData({}, {}, {})))


def test_every_finding_of_a_real_run_is_a_sentence(run):
    result = all_findings(run)
    assert {finding.is_shown for finding in result} == {True, False}
    for finding in result:
        assert finding.claim.endswith(".")
        assert finding.evidence == "" or finding.evidence.endswith(".")
        assert "Tree" not in finding.claim + finding.evidence
        assert "{" not in finding.claim + finding.evidence


@pytest.mark.parametrize(("model", "words"), [(1.84, "above"), (1.5, "implausible")])
def test_the_floor_is_reached_or_undercut(model, words):
    ends = [float(np.exp(model - 0.02)), float(np.exp(model + 0.02))]
    ngrams = {"perplexity": 9.4, "order": 5, "difference": interval(1.0) | {"stories": 40}}
    metrics = {
        "nats_per_token": model, "perplexity": float(np.exp(model)), "perplexity_interval": ends,
        "baselines": {"floor": {"nats_per_token": 1.75}, "kneser_ney": ngrams},
    }  # fmt: skip
    check("training", run_of(evaluate=metrics), ("shown", "worse"), ("shown", words))


def test_roles_are_claimed_where_stage_evaluate_claims_them():
    roles = [
        {"role": "previous token", "layer": 1, "head": 1, "score": 0.9, "baseline": 0.1, "claimed": True},
        {"role": "same token", "layer": 1, "head": 2, "score": 0.2, "baseline": 0.15, "claimed": False},
        {"role": "same token", "layer": 1, "head": 1, "score": 0.1, "baseline": 0.15, "claimed": False},
    ]  # fmt: skip
    run = run_of(roles=roles)
    check("attention", run, ("shown", "Namely: previous token."), ("open", "Namely: same token."))
    assert heads(run)["role"].tolist() == ["previous token", "same token"]


# ---------------------------------------------------------------- a whole report, without effects and with


def estimate(rng, truth, error, count):
    """An estimate with its interval, as from a sample of so many texts."""
    value = truth + rng.normal(0, error)
    spread = error * np.sqrt(rng.chisquare(count - 1) / count)  # as a bootstrap's
    return interval(value, 1.96 * spread)


def positive(rng, truth, error, count):
    logarithms = estimate(rng, truth, error, count)
    return {name: float(np.exp(value)) for name, value in logarithms.items()}


def timed(rng, key, slow, **setting):
    trials = np.exp(slow + rng.normal(0, 0.03, 3))
    low, value, high = sorted(trials)
    return {key: value, f"low_{key}": low, f"high_{key}": high, **setting}


def simulated(rng, effect=0.0):
    """A run in which every effect has this size, in errors of its estimate; timings in 3 %."""
    loss = estimate(rng, 1.0 + effect * 0.05, 0.05, STORIES)
    baselines = {
        "kneser_ney": {"order": 5, "perplexity": 9.0,
                       "difference": estimate(rng, effect, 1.0, STORIES) | {"stories": STORIES}},
        "floor": {"nats_per_token": 1.0},
    }  # fmt: skip
    evaluate = {
        "nats_per_token": loss["value"], "perplexity": float(np.exp(loss["value"])),
        "perplexity_interval": [float(np.exp(loss["low"])), float(np.exp(loss["high"]))],
        "baselines": baselines,
        "memorised": {"continuations": {"count": PROMPTS, "nearest": estimate(rng, 12 + effect, 1, PROMPTS)},
                      "references": {"count": PROMPTS, "nearest": estimate(rng, 12, 1, PROMPTS)}},
        "heads": {"ablation": {"stories": 40}},
    }  # fmt: skip
    ablation = []
    for head in range(HEADS):
        added = estimate(rng, effect * 0.01, 0.01, 40)
        ablation.append(
            {"layer": 1, "head": head, "loss_increase": added["value"], **added} | {"value": None}
        )
    words = positive(rng, 3.0, 0.1, PROMPTS)
    methods = {"greedy": {"sense": {"texts": PROMPTS, "words": words}}}
    for name in ("beam 5", "beam 10"):
        methods[name] = {
            "against_greedy": {"prompts": 20, "difference": estimate(rng, 3 * effect, 1.0, 20)},
            "sense": {"texts": PROMPTS, "words": positive(rng, 3.0 + effect / 10, 0.1, PROMPTS)},
        }
    slow = effect * 0.03
    cache = [
        timed(rng, "tokens_per_s", slow * on, new_tokens=length, cache=on)
        for length in (32, 64, 128) for on in (False, True)
    ]  # fmt: skip
    steps = [
        timed(rng, "step_s", slow * on, layers=layers, recompute=on)
        for layers in (2, 4, 8) for on in (False, True)
    ]  # fmt: skip
    speeds = {"greedy": timed(rng, "tokens_per_s", 0.0)} | {
        name: timed(rng, "tokens_per_s", -slow) for name in ("sampling", "beam 5", "beam 10")
    }
    repeats = {bench: {"repeats": 3} for bench in ("kv_bench", "ckpt_bench", "beam_bench")}
    return run_of(
        repeats, evaluate=evaluate, ablation=pd.DataFrame(ablation), beam_bench={"methods": methods},
        kv_bench_time={"settings": cache}, ckpt_bench_time={"settings": steps},
        beam_bench_time={"methods": speeds},
    )  # fmt: skip


def claimed(run):
    return [finding for finding in all_findings(run) if finding.is_shown]


def test_at_most_5_of_100_reports_without_any_effect_claim_anything():
    rng = np.random.default_rng(1)
    reports = 300
    false = sum(bool(claimed(simulated(rng))) for _ in range(reports))
    assert false <= 0.05 * reports
    asked = questions(simulated(rng))
    kinds = {question.key[0] for question in asked}
    assert kinds >= {"ngrams", "floor", "shared", "log_prob", "words", "head"}  # fmt: skip
    assert len(asked) > 20
    pages = [questions(simulated(rng)) for _ in range(50)]
    # without a correction most reports would claim something
    assert sum(min(one.effect.p for one in page) < 0.05 for page in pages) > 20


def test_a_time_that_varies_more_than_the_others_has_a_wider_interval():
    quiet = {"tokens_per_s": 1.0, "low_tokens_per_s": 0.99, "high_tokens_per_s": 1.01}
    varying = quiet | {"high_tokens_per_s": 2.0}

    def high(widest, other):
        speeds = {"greedy": quiet, "beam 5": other, "beam 10": widest}
        methods = {"methods": speeds}
        params = {"beam_bench": {"repeats": 3}}
        (question,) = questions(run_of(params, beam_bench=methods, beam_bench_time=methods))
        return question.effect.high

    assert high(varying, quiet) > 1.1 * high(quiet, varying)


def test_planted_effects_are_found():
    result = claimed(simulated(np.random.default_rng(4), effect=8.0))
    text = " ".join(finding.claim + finding.evidence for finding in result)
    for words in (
        "worse than the Kneser-Ney", "above the generator's floor", "shares more",
        "width 10 finds more", "width 10 makes fewer", "16 of 16 heads", "faster",
        "slower",
    ):  # fmt: skip
        assert words in text
