"""Summary of runs that differ only in their seed; needs no torch."""

import csv
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from tinylm.base import paths
from tinylm.base.files import read_json, require
from tinylm.evaluate.significance import student_critical_value

METRICS = ("perplexity", "nats_per_token", "raw_bits_per_byte", "held_out_loss")

Curve = Sequence[tuple[float, float, float]]  # update, tokens, held-out loss


def first_curve() -> Curve:
    """The validations of stage train."""
    with open(require(paths.plot("loss"), "train"), encoding="utf-8", newline="") as handle:
        rows = [row for row in csv.DictReader(handle) if row["series"] == "held-out"]
    return [(float(row["step"]), float(row["tokens"]), float(row["value"])) for row in rows]


def scores_of(held_out_loss: float | None, scored: str | int, stage: str) -> dict[str, Any]:
    """METRICS of a run's weights, which `stage` scored."""
    score = read_json(paths.seed_score(scored), stage)
    return score | {"held_out_loss": held_out_loss}


def merge(by_seed: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """data/figures/seeds.json from each seed's METRICS: mean, sd and difference of each metric that all seeds have.

    sd: sample standard deviation. difference: t * sqrt(2) * sd with n - 1 degrees of freedom, a 95 % bound on the
    difference between two runs that differ only in their seed (if differences are normally distributed). Both are
    left out with one seed.
    """
    merged: dict[str, Any] = {"n": len(by_seed), "seeds": list(by_seed)}
    for name in METRICS:
        values = [row[name] for row in by_seed.values() if row.get(name) is not None]
        if len(values) < len(by_seed):
            continue
        merged[name] = {"mean": statistics.fmean(values)}
        if len(values) > 1:
            sd = statistics.stdev(values)
            merged[name] |= {
                "sd": sd,
                "difference": student_critical_value(0.05, len(values) - 1) * math.sqrt(2) * sd,
            }
    merged["by_seed"] = {
        str(seed): {name: row.get(name) for name in METRICS} for seed, row in by_seed.items()
    }
    return merged


def in_words(merged: Mapping[str, Any]) -> str:
    """What `merge` found of the perplexity, for the terminal."""
    seeds = merged["seeds"]
    perplexity = merged.get("perplexity")
    if perplexity is None:
        return "of some seed is too large for a number: that run diverged"
    if len(seeds) == 1:
        return f"{perplexity['mean']:.3f}, seed {seeds[0]} alone"
    return f"{perplexity['mean']:.3f} ± {perplexity['sd']:.3f} over {len(seeds)} seeds"


def curves(by_seed: Mapping[int, Curve]) -> list[tuple[int, int, str, float]]:
    """plots/seeds.csv: held-out losses as (step, tokens, series, nats per token), one series per seed."""
    rows = []
    for seed, curve in by_seed.items():
        for step, tokens, value in curve:
            rows.append((int(step), int(tokens), f"seed {seed}", value))
    return rows
