"""Which differences the report tests, and which it states in bold."""

import numpy as np
import pandas as pd
import pytest

from tinylm.report.effects import Effect, effects, says, widest_beam
from tinylm.report.sources import ReportData


def interval(value, half=0.05):
    return {"value": value, "low": value - half, "high": value + half}


def run_of(**files):
    return ReportData({}, files, {})


def test_a_run_without_results_has_no_effect():
    assert effects(run_of()) == {}


def test_every_effect_of_a_real_run_has_an_interval_around_its_value(run):
    measured = effects(run)
    assert {"ngrams", "head 1.1"} <= measured.keys()
    for effect in measured.values():
        assert effect.low <= effect.value <= effect.high


def test_values_and_signs_are_those_of_the_files():
    evaluate = {
        "perplexity": np.exp(2.0), "perplexity_interval": [np.exp(1.9), np.exp(2.1)],
        "baselines": {"kneser_ney": {"difference": interval(-0.4) | {"stories": 40}},
                      "floor": {"nats_per_token": 1.75}},
        "heads": {"ablation": {"stories": 30}},
    }  # fmt: skip
    ablation = [{"layer": 2, "head": 3, "loss_increase": 0.1, "low": 0.05, "high": 0.2}]
    measured = effects(run_of(evaluate=evaluate, ablation=pd.DataFrame(ablation)))
    values = {name: (effect.value, effect.texts) for name, effect in measured.items()}
    assert values == {
        "ngrams": (pytest.approx(-0.4), 40),
        "floor": (pytest.approx(0.25), 40),
        "head 2.3": (pytest.approx(0.1), 30),
    }
    assert measured["floor"].high == pytest.approx(0.35)


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


def test_claims_are_corrected_for_all_effects_of_the_report():
    """A difference of 2.3 errors is claimed alone, and not among the noise of 16 heads."""
    difference = {"value": 2.3, "low": 2.3 - 1.96, "high": 2.3 + 1.96, "stories": 500}
    evaluate = {
        "baselines": {"kneser_ney": {"difference": difference}},
        "heads": {"ablation": {"stories": 500}},
    }
    heads = [
        {"layer": 1, "head": head, "loss_increase": head / 10, "low": head / 10 - 1.96, "high": head / 10 + 1.96}
        for head in range(16)
    ]  # fmt: skip
    assert effects(run_of(evaluate=evaluate))["ngrams"].is_claimed
    among = effects(run_of(evaluate=evaluate, ablation=pd.DataFrame(heads)))
    assert len(among) == 17
    assert not any(effect.is_claimed for effect in among.values())
    difference["low"] = 2.3 - 0.5
    assert effects(run_of(evaluate=evaluate, ablation=pd.DataFrame(heads)))["ngrams"].is_claimed
