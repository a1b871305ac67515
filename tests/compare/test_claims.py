"""Simulated sweeps, by tinylm's own comparison: how often it claims what is not so.

`python -m pytest tests/compare/test_claims.py -s` prints the rates that docs/explanation/evaluation.md names.
"""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from tinylm.compare.comparison import BETTER, WORSE, compare
from tinylm.compare.planning import recorded_noise
from tinylm.compare.runs import PAIR_COLUMNS, RevisionResult

SWEEPS, SETTINGS, SEEDS, STORIES = 200, 6, 3, 40
# nats per token: of a seed in all settings, of a seed in one setting, of a story under one setting, of one such run
SHARED, OWN, STORY, CELL = 0.02, 0.01, 0.01, 0.02
BY_SEEDS, BY_STORIES = 2 * OWN**2, 2 * (STORY**2 + CELL**2)


def sweep(rng, settings=SETTINGS, seeds=SEEDS, stories=STORIES):
    """The first setting and others that differ from it in nothing."""
    texts = [f"text {i}" for i in range(stories)]
    tokens = rng.integers(80, 160, stories).astype(float)
    hard, shared = rng.normal(2.0, 0.6, stories), rng.normal(0, SHARED, seeds)
    runs = []
    for setting in range(settings + 1):
        taste = rng.normal(0, STORY, stories)
        for seed in range(seeds):
            loss = hard + taste + shared[seed] + rng.normal(0, OWN) + rng.normal(0, CELL, stories)
            nats = tokens * loss
            params = {"train.lr": float(setting), "train.seed": seed}
            bits = {"bits": nats / np.log(2), "bytes": tokens * 4}
            raw = {"raw_bits": nats / np.log(2), "raw_bytes": tokens * 4}
            columns = {"text_id": texts, "tokens_id": texts, "nats": nats, "tokens": tokens}
            table = pd.DataFrame(columns | bits | raw)
            metrics = {"evaluate": {"nats_per_token": nats.sum() / tokens.sum()}}
            runs.append(RevisionResult(f"{setting}-{seed}", None, params, metrics, stories=table))
    return runs


def is_claimed(comparison):
    """Whether a difference of any metric is claimed."""
    findings = [finding for against in comparison.against for finding in against.findings]
    return any(finding.kind in (BETTER, WORSE) for finding in findings)


def test_at_most_5_of_100_null_sweeps_claim_anything():
    rng = np.random.default_rng(1)
    false = by_stories = uncorrected = 0
    for _ in range(SWEEPS):
        comparison = compare(sweep(rng))
        assert comparison.comparisons == SETTINGS
        differences = []
        for against in comparison.against:
            if against.differs == "settings":
                differences += [finding.difference for finding in against.findings]
        false += is_claimed(comparison)
        by_stories += any(abs(one.value) > 1.96 * one.error for one in differences)
        uncorrected += any(one.p <= 0.05 for one in differences)
    print(
        f"\n{SWEEPS} null sweeps with a false claim: {false}; without Holm: {uncorrected}; stories alone: {by_stories}"
    )
    assert false <= 0.05 * SWEEPS
    # the same sweeps do tempt: the test would fail without either correction
    assert uncorrected > 0.05 * SWEEPS + 2 * (0.05 * 0.95 * SWEEPS) ** 0.5
    assert by_stories > uncorrected


def with_texts_and_answers(run, rng):
    """The run with random continuations and with random answers to 40 twos of minimal pairs."""
    words = np.array(["the", "dog", "ran", "home", "and", "slept"])
    samples = pd.DataFrame({"story": range(10), "prompt": "once", "reference": "the dog ran home"})
    samples["continuation"] = [" ".join(rng.choice(words, 6)) for _ in range(10)]
    names = [("word order", str(i // 2), f"right {i}", f"wrong {i}") for i in range(80)]
    index = pd.MultiIndex.from_tuples(names, names=PAIR_COLUMNS)
    answers = np.repeat(rng.integers(0, 2, 40), 2).astype(float)  # both of a two, or neither
    run.metrics["evaluate"]["pairs"] = {"phenomena": {"word order": {"model": {"value": 0.5}}}}
    return dataclasses.replace(run, samples=samples, pairs=pd.Series(answers, index))


def test_random_texts_and_answers_are_not_claimed_to_differ():
    rng = np.random.default_rng(5)
    false = 0
    for _ in range(10):
        runs = [with_texts_and_answers(run, rng) for run in sweep(rng, settings=1, stories=20)]
        comparison = compare(runs)
        assert comparison.comparisons == 3
        false += is_claimed(comparison)
    assert false <= 2  # of 10: at the level 0.05 this holds in 99 of 100 tests


def test_recorded_noise_is_that_of_the_simulation():
    rng = np.random.default_rng(3)
    noise = recorded_noise(sweep(rng, settings=2, seeds=60, stories=400))
    assert noise.paired
    assert noise.seeds == pytest.approx(BY_SEEDS, rel=0.4)
    assert noise.stories == pytest.approx(BY_STORIES, rel=0.2)
    assert (noise.count, noise.df) == (400, 2 * 59)
