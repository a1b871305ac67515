"""Summary of runs that differ only in their seed; needs no torch."""

import csv
import math
import statistics
from collections.abc import Mapping, Sequence

from tinylm.base import paths
from tinylm.base.files import read_json, require
from tinylm.run.interval import student_critical_value
from tinylm.run.seeds import Seeds, SeedScore, Spread

Curve = Sequence[tuple[float, float, float]]  # update, tokens, held-out loss


def first_curve() -> Curve:
    """The validations of stage train."""
    with open(require(paths.plot("loss"), "train"), encoding="utf-8", newline="") as handle:
        rows = [row for row in csv.DictReader(handle) if row["series"] == "held-out"]
    return [(float(row["step"]), float(row["tokens"]), float(row["value"])) for row in rows]


def score_of(held_out_loss: float | None, scored: str | int, stage: str) -> SeedScore:
    """The score of a run's weights, which `stage` measured on the evaluation split."""
    score = read_json(paths.seed_score(scored), stage)
    return SeedScore(
        perplexity=score["perplexity"],
        nats_per_token=score["nats_per_token"],
        raw_bits_per_byte=score["raw_bits_per_byte"],
        held_out_loss=held_out_loss,
    )


def summarise(by_seed: Mapping[int, SeedScore]) -> Seeds:
    """The spread of each metric over all seeds."""
    scores = list(by_seed.values())
    return Seeds(
        n=len(by_seed),
        seeds=list(by_seed),
        perplexity=spread([score.perplexity for score in scores]),
        nats_per_token=spread([score.nats_per_token for score in scores]),
        raw_bits_per_byte=spread([score.raw_bits_per_byte for score in scores]),
        held_out_loss=spread([score.held_out_loss for score in scores]),
        by_seed=dict(by_seed),
    )


def spread(values: Sequence[float | None]) -> Spread | None:
    """Mean, standard deviation and difference of a metric; None unless every seed has it.

    difference: t * sqrt(2) * sd with n - 1 degrees of freedom, a 95 % bound on the difference
    between two runs that differ only in their seed (if differences are normally distributed).
    """
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    mean = statistics.fmean(known)
    if len(known) == 1:
        return Spread(mean)
    sd = statistics.stdev(known)
    t = student_critical_value(0.05, len(known) - 1)
    return Spread(mean, sd, difference=t * math.sqrt(2) * sd)


def shown_perplexity(seeds: Seeds) -> str:
    """The perplexity of all seeds, for the terminal."""
    perplexity = seeds.perplexity
    if perplexity is None:
        return "of some seed is too large for a number: that run diverged"
    if seeds.n == 1:
        return f"{perplexity.mean:.3f}, seed {seeds.seeds[0]} alone"
    return f"{perplexity.mean:.3f} ± {perplexity.sd:.3f} over {seeds.n} seeds"


def curves(by_seed: Mapping[int, Curve]) -> list[tuple[int, int, str, float]]:
    """plots/seeds.csv: held-out losses as (step, tokens, series, nats per token), one series per seed."""
    rows = []
    for seed, curve in by_seed.items():
        for step, tokens, value in curve:
            rows.append((int(step), int(tokens), f"seed {seed}", value))
    return rows
