"""Which differences the report tests, which it states in bold, and which sentence it prints."""

import numpy as np
import pandas as pd
import pytest

from tinylm.evaluate.statistics import p_of_interval
from tinylm.report.effects import Effect, effects, says, widest_beam
from tinylm.report.sources import ReportData

HEADS, PROMPTS, STORIES = 16, 50, 500


def interval(value, half=0.05):
    return {"value": value, "low": value - half, "high": value + half}


def run_of(**files):
    return ReportData({}, files, {})


def test_a_run_without_results_has_no_effect():
    assert effects(run_of()) == {}


def test_every_effect_of_a_real_run_has_an_interval_around_its_value(run):
    measured = effects(run)
    assert {"ngrams", "shared", "log_prob", "head 1.1"} <= measured.keys()
    for effect in measured.values():
        assert effect.low <= effect.value <= effect.high


def test_values_and_signs_are_those_of_the_files():
    nearest = {"count": 9, "nearest": interval(0.5)}, {"count": 8, "nearest": interval(0.3, 0.12)}
    methods = {
        "greedy": {"sense": {"words": interval(4.0, 1.0)}},
        "beam 5": {
            "against_greedy": {"prompts": 7, "difference": interval(1.5)},
            "sense": {"words": interval(8.0, 1.0), "texts": 6},
        },
        "beam 1": {},
    }
    evaluate = {
        "perplexity": np.exp(2.0), "perplexity_interval": [np.exp(1.9), np.exp(2.1)],
        "baselines": {"kneser_ney": {"difference": interval(-0.4) | {"stories": 40}},
                      "floor": {"nats_per_token": 1.75}},
        "memorised": {"continuations": nearest[0], "references": nearest[1]},
        "heads": {"ablation": {"stories": 30}},
    }  # fmt: skip
    ablation = [{"layer": 2, "head": 3, "loss_increase": 0.1, "low": 0.05, "high": 0.2}]
    measured = effects(
        run_of(evaluate=evaluate, beam_bench={"methods": methods}, ablation=pd.DataFrame(ablation))
    )
    values = {name: (effect.value, effect.texts) for name, effect in measured.items()}
    assert values == {
        "ngrams": (pytest.approx(-0.4), 40),
        "floor": (pytest.approx(0.25), 40),
        "shared": (pytest.approx(0.2), 8),
        "log_prob": (pytest.approx(1.5), 7),
        "words": (pytest.approx(np.log(2)), 6),
        "head 2.3": (pytest.approx(0.1), 30),
    }
    assert measured["floor"].high == pytest.approx(0.35)
    half = np.hypot(0.05, 0.12)  # of two independent values (Zou and Donner 2008)
    assert (measured["shared"].low, measured["shared"].high) == pytest.approx(
        (0.2 - half, 0.2 + half)
    )


def test_the_widest_beam_is_that_of_the_greatest_width():
    methods = {name: {} for name in ("greedy", "beam 10", "beam 1", "beam 5")}
    assert widest_beam(run_of(beam_bench={"methods": methods})) == "beam 10"
    assert widest_beam(run_of(beam_bench={"methods": {"greedy": {}, "beam 1": {}}})) == ""


def test_a_sentence_is_bold_only_if_it_is_claimed():
    sentences = ("It is worse.", "It is better.", "Who knows.")
    assert says(Effect(1, 0, 2, 9, is_claimed=True), *sentences) == "**It is worse.**"
    assert says(Effect(-1, -2, 0, 9, is_claimed=True), *sentences) == "**It is better.**"
    assert says(Effect(1, 0, 2, 9), *sentences) == "Who knows."
    assert says(None, *sentences) == ""


# ---------------------------------------------------------------- a whole report, without effects and with


def estimate(rng, truth, error, count):
    """An estimate with its interval, as from a sample of so many texts."""
    value = truth + rng.normal(0, error)
    spread = error * np.sqrt(rng.chisquare(count - 1) / count)  # as a bootstrap's
    return interval(value, 1.96 * spread)


def positive(rng, truth, error, count):
    logarithms = estimate(rng, truth, error, count)
    return {name: float(np.exp(value)) for name, value in logarithms.items()}


def simulated(rng, effect=0.0):
    """A run in which every effect has this size, in errors of its estimate."""
    perplexity = positive(rng, 1.0 + effect * 0.05, 0.05, STORIES)
    ngrams = estimate(rng, effect, 1.0, STORIES) | {"stories": STORIES}
    sampled = {"count": PROMPTS, "nearest": estimate(rng, 12 + effect, 1, PROMPTS)}
    written = {"count": PROMPTS, "nearest": estimate(rng, 12, 1, PROMPTS)}
    evaluate = {
        "perplexity": perplexity["value"], "perplexity_interval": [perplexity["low"], perplexity["high"]],
        "baselines": {"kneser_ney": {"difference": ngrams}, "floor": {"nats_per_token": 1.0}},
        "memorised": {"continuations": sampled, "references": written},
        "heads": {"ablation": {"stories": 40}},
    }  # fmt: skip
    ablation = []
    for head in range(HEADS):
        added = estimate(rng, effect * 0.01, 0.01, 40)
        ablation.append(added | {"layer": 1, "head": head, "loss_increase": added["value"]})
    methods = {"greedy": {"sense": {"texts": PROMPTS, "words": positive(rng, 3.0, 0.1, PROMPTS)}}}
    for name in ("beam 5", "beam 10"):
        methods[name] = {
            "against_greedy": {"prompts": 20, "difference": estimate(rng, 3 * effect, 1.0, 20)},
            "sense": {"texts": PROMPTS, "words": positive(rng, 3.0 + effect / 10, 0.1, PROMPTS)},
        }
    beams = {"methods": methods}
    return run_of(evaluate=evaluate, ablation=pd.DataFrame(ablation), beam_bench=beams)


def test_at_most_5_of_100_reports_without_any_effect_claim_anything():
    rng = np.random.default_rng(1)
    reports = [effects(simulated(rng)) for _ in range(300)]
    assert all(len(report) == HEADS + 5 for report in reports)
    false = sum(any(effect.is_claimed for effect in report.values()) for report in reports)
    assert false <= 0.05 * len(reports)
    # without a correction many reports would claim something
    uncorrected = 0
    for report in reports:
        p_values = [
            p_of_interval(one.value, one.low, one.high, one.texts) for one in report.values()
        ]
        uncorrected += min(p_values) < 0.05
    assert uncorrected > 0.5 * len(reports)


def test_planted_effects_are_found():
    measured = effects(simulated(np.random.default_rng(3), effect=12.0))
    assert [name for name, effect in measured.items() if not effect.is_claimed] == []
