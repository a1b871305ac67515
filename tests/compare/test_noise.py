"""Simulated sweeps: the noise between seeds and stories is recovered from their losses."""

import numpy as np
import pandas as pd
import pytest

from tinylm.compare.planning import recorded_noise
from tinylm.compare.results import RevisionResult

# nats per token: of a seed in all settings, of a seed in one setting, of a story under one setting, of one such run
SHARED, OWN, STORY, CELL = 0.02, 0.01, 0.01, 0.02
BY_SEEDS, BY_STORIES = 2 * OWN**2, 2 * (STORY**2 + CELL**2)


def sweep(rng, settings, seeds, stories):
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
            columns = {"text_id": texts, "tokens_id": texts, "nats": nats, "tokens": tokens}
            raw = {"raw_bits": nats / np.log(2), "raw_bytes": tokens * 4}
            table = {seed: pd.DataFrame(columns | raw)}
            runs.append(RevisionResult(f"{setting}-{seed}", params, stories=table))
    return runs


def test_recorded_noise_is_that_of_the_simulation():
    rng = np.random.default_rng(3)
    noise = recorded_noise(sweep(rng, settings=2, seeds=60, stories=400))
    assert noise.seeds == pytest.approx(BY_SEEDS, rel=0.4)
    assert noise.stories == pytest.approx(BY_STORIES, rel=0.2)
    assert (noise.count, noise.df) == (400, 2 * 59)
    alone = recorded_noise(sweep(rng, settings=0, seeds=60, stories=400))  # nothing is paired
    assert alone.seeds == pytest.approx(2 * (SHARED**2 + OWN**2), rel=0.4)
