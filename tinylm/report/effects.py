"""What a run measured that a finding may rest on, and what may be claimed of it.

`statistics.claims` decides over everything that one report compares. So at most 4 of 100 reports of
runs without any effect claim anything; the roles of heads, which stage evaluate decides, have the
fifth.
"""

import math
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from tinylm.evaluate.statistics import (
    ALPHA,
    NOT_SHOWN,
    SAME,
    Z95,
    Claim,
    Effect,
    claims,
    effect_between,
)
from tinylm.report.sources import Run, Tree, as_number, records
from tinylm.report.wording import ABSENT, interval, number

LEVEL = ALPHA - 0.01
NEAR_FLOOR = 0.10  # nats per token: closer to the generator's floor is "close"
IDLE = 0.01  # nats per token: a head is idle if the loss without it changes by less
_ZERO = {"value": 0.0, "low": 0.0, "high": 0.0}
CHANCE = {"value": 0.5, "low": 0.5, "high": 0.5}  # of finding the right one of two sentences
BENCHES = {  # bench: what is timed, and the size and the switch of its settings
    "kv_bench_time": ("tokens_per_s", "new_tokens", "cache"),
    "ckpt_bench_time": ("step_s", "layers", "recompute"),
    "beam_bench_time": ("tokens_per_s", "", ""),
}

Key = tuple[Any, ...]  # the rule, then what tells its effects apart
Claims = dict[Key, Claim]
Measured = Iterator[tuple[Key, Effect | None]]


def claims_of(run: Run) -> Claims:
    """What may be claimed of every effect of a run."""
    effects = dict(effects_of(run))
    hypotheses: dict[Key, Key] = {}
    for key in effects:
        if key[0] in ("chance", "untrained"):  # a phenomenon is learnt if it is above both
            hypotheses[key] = ("learnt", key[1])
    return claims(effects, hypotheses, LEVEL)


def effects_of(run: Run) -> Iterator[tuple[Key, Effect]]:
    """Every difference that the report compares, by its key."""
    for measure in (_predictions, _samples, _beams, _pairs, _heads, _times):
        for key, effect in measure(run):
            if effect is not None:
                yield key, effect


def _predictions(run: Run) -> Measured:
    """The model compared with n-grams, story by story, and with the generator's floor."""
    baselines = run.tree("evaluate").baselines
    difference = baselines.kneser_ney.difference
    yield ("ngrams",), _between(difference, _ZERO, difference.stories or 0)
    once = run.scored_once()
    span = interval(once.perplexity_interval)
    floor = as_number(baselines.floor.nats_per_token)
    if floor is not None and span is not None:
        model = _logarithms({"value": once.perplexity, "low": span[0], "high": span[1]})
        exact = {"value": floor, "low": floor, "high": floor}
        yield ("floor",), _between(model, exact, difference.stories or 0, NEAR_FLOOR)


def _samples(run: Run) -> Measured:
    """Sampled text compared with the stories' own continuations."""
    samples = run.tree("evaluate").samples
    sampled = _logarithms(samples.continuation_perplexity)
    stories = _logarithms(samples.reference_perplexity)
    yield ("predictable",), _between(sampled, stories, samples["count"] or 0)
    memorised = run.tree("evaluate").memorised
    written = memorised.continuations
    true = memorised.references
    texts = min(written["count"] or 0, true["count"] or 0)
    yield ("shared",), _between(written.longest_run, true.longest_run, texts)


def _pairs(run: Run) -> Measured:
    """Each phenomenon compared with chance, an untrained model and n-grams."""
    for name, row in run.tree("evaluate").pairs.phenomena.items():
        draws = row.draws or 0
        yield ("chance", name), _between(row.model, CHANCE, draws)
        yield ("untrained", name), _between(row.model, row.untrained, draws)
        yield ("kneser_ney", name), _between(row.model, row.kneser_ney, draws)


def _heads(run: Run) -> Measured:
    """The loss that each head's ablation adds."""
    stories = run.tree("evaluate").heads.ablation.stories or 0
    for head in records(run.frame("ablation")):
        added = {"value": head["loss_increase"], "low": head["low"], "high": head["high"]}
        yield ("head", head["layer"], head["head"]), _between(added, _ZERO, stories, IDLE)


def _between(one: Any, other: Any, count: float, bound: float | None = None) -> Effect | None:
    """The difference of two values with intervals; None if either is missing."""
    if interval(one) is None or interval(other) is None:
        return None
    return effect_between(one, other, count, bound)


def _logarithms(value: Any) -> dict[str, float] | None:
    """A positive value and its interval as logarithms; None if it is missing."""
    span = interval(value)
    if span is None or not span[0] > 0:
        return None
    return {name: math.log(value[name]) for name in ("value", "low", "high")}


def _beams(run: Run) -> Measured:
    """Probability and sense of each wider beam, compared with greedy decoding."""
    methods = run.tree("beam_bench").methods
    for name, method in methods.items():
        if name.startswith("beam ") and name != "beam 1":
            against = method.against_greedy
            prompts = against.prompts or 0
            yield ("log_prob", name), _between(against.difference, _ZERO, prompts)
            words = _logarithms(method.sense.words)
            greedy = _logarithms(methods.greedy.sense.words)
            yield ("words", name), _between(words, greedy, method.sense.texts or 0)


# ---------------------------------------------------------------- times


def timed_pairs(run: Run, bench: str) -> dict[Any, tuple[Tree, Tree]]:
    """The settings of a bench by name or number, each with the one that its time is compared with."""
    results = run.tree(bench)
    if bench == "beam_bench_time":
        return {name: (row, results.methods.greedy) for name, row in results.methods.items()}
    _, size, switch = BENCHES[bench]
    rows = [*(results.settings or []), *(results.other_ways or [])]
    rows.sort(key=itemgetter(size))
    off = {row[size]: row for row in rows if row[switch] is False}
    return dict(enumerate((row, off.get(row[size], row)) for row in rows))


def _times(run: Run) -> Measured:
    """ln of the ratio of two median times, with the mean variance of all settings of the bench.

    If the two settings vary more than that, their own mean variance is used.
    """
    for bench, (key, _, _) in BENCHES.items():
        pairs = timed_pairs(run, bench)
        trials = run.param(bench.removesuffix("_time"), "repeats") or 1
        variances = {name: _variance(row, key, trials) for name, (row, _) in pairs.items()}
        measured = [variance for variance in variances.values() if variance is not None]
        if not measured:
            continue
        mean_variance = sum(measured) / len(measured)
        count = len(measured) * (trials - 1) + 1  # degrees of freedom, and one
        for name, (row, base) in pairs.items():
            value, other = as_number(row[key]), as_number(base[key])
            if row is not base and value and other:
                of_base = _variance(base, key, trials) or 0.0
                variance = max(mean_variance, ((variances[name] or 0.0) + of_base) / 2)
                ratio = math.log(value / other)
                half = Z95 * math.sqrt(2 * variance / trials)
                yield (bench, name), Effect(ratio, ratio - half, ratio + half, count, pooled=True)


def _variance(row: Tree, key: str, trials: int) -> float | None:
    """An upper bound of the variance of a time's logarithm (Popoviciu), exact for two trials."""
    span = interval([row[f"low_{key}"], row[f"high_{key}"]])
    if trials < 2 or span is None or not span[0] > 0:
        return None
    return math.log(span[1] / span[0]) ** 2 / 4 * trials / (trials - 1)


def relative(run: Run, claimed: Claims, bench: str, name: Any) -> str:
    """One time relative to another, such as 2.1 times, or why no ratio is given."""
    row, base = timed_pairs(run, bench).get(name, (Tree(), Tree()))
    key = BENCHES[bench][0]
    value, other = as_number(row[key]), as_number(base[key])
    if row is base or not value or not other:
        return ABSENT
    claim = claimed.get((bench, name))
    if claim is None:
        return "measured once"
    if claim.verdict in (NOT_SHOWN, SAME):
        return "no difference shown"
    return f"{number(value / other, 2)} times"
