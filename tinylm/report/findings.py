"""What a run shows, and what it does not show.

A question is a difference that the report tests, and the sentence about it. `statistics.claims`
decides on all questions of a report at once. So at most 4 of 100 reports of runs without any effect
claim anything here. One more may claim a role of a head, which stage evaluate decides.
"""

import dataclasses
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from statistics import fmean
from typing import Any

from tinylm.evaluate.statistics import (
    ALPHA,
    HIGHER,
    LOWER,
    NOT_SHOWN,
    Z95,
    Claim,
    Effect,
    claims,
    effect_between,
)
from tinylm.report.heads import roles
from tinylm.report.sources import ReportData, Tree, as_number
from tinylm.report.wording import (
    count,
    interval,
    loss,
    number,
    share_with_interval,
    with_interval,
)

LEVEL = ALPHA - 0.01  # the rest is the level of `head_roles`
_UNITS = {"tokens_per_s": "tokens/s", "step_s": "s"}
_ZERO = {"value": 0.0, "low": 0.0, "high": 0.0}

Key = tuple[Any, ...]  # what is compared, then what distinguishes its effects
Claims = dict[Key, Claim]


@dataclasses.dataclass(frozen=True)
class Finding:
    """A claim that the run supports, or a question that it leaves open, with the numbers behind it."""

    claim: str
    evidence: str
    is_shown: bool


@dataclasses.dataclass(frozen=True)
class Question:
    """A difference that the report compares.

    effect: None if it was not measured.
    claim: the sentence about it, with {} for one of two words: the second if the effect is lower.
    It is "" if only tables and lists show the answer.
    """

    key: Key
    effect: Effect | None
    section: str = ""
    claim: str = ""
    words: tuple[str, str] = ("", "")
    evidence: str = ""

    def answer(self, claim: Claim) -> Finding:
        """The claim, or the open question."""
        sentence = self.claim.format(self.words[claim.verdict == LOWER])
        if claim.verdict == NOT_SHOWN:
            sentence = f"whether {sentence[0].lower()}{sentence[1:]}"
        return Finding(sentence, self.evidence, claim.verdict != NOT_SHOWN)


def questions(run: ReportData) -> list[Question]:
    """Every difference that the report compares and the run has measured."""
    asked = chain(_training(run), _generation(run), _times(run), _beams(run), _heads(run))
    return [question for question in asked if question.effect is not None]


def _claims(asked: Iterable[Question]) -> Claims:
    """What may be claimed of every difference, by its key."""
    effects: dict[Key, Effect] = {}
    for question in asked:
        assert question.effect is not None
        effects[question.key] = question.effect
    return claims(effects, level=LEVEL)


def findings_by_section(run: ReportData) -> dict[str, list[Finding]]:
    """What this run shows and does not show, for each section that answers a question."""
    asked = questions(run)
    claimed = _claims(asked)
    findings: dict[str, list[Finding]] = defaultdict(list)
    for question in asked:
        if question.claim:
            findings[question.section].append(question.answer(claimed[question.key]))
    findings["attention"] += _counted(
        _roles(run),
        {
            HIGHER: "For {} roles, some head fits better than the baseline.",
            NOT_SHOWN: "for {} roles, whether any head fits better than the baseline.",
        },
    )
    findings["attention"] += _counted(
        {key[1]: claim.verdict for key, claim in claimed.items() if key[0] == "head"},
        {
            HIGHER: "Ablation raises the loss for {} heads.",
            LOWER: "Ablation lowers the loss for {} heads.",
            NOT_SHOWN: "for {} heads, whether ablation changes the loss.",
        },
    )
    return findings


def _counted(verdicts: Mapping[str, str], sentences: Mapping[str, str]) -> Iterator[Finding]:
    """A finding for each verdict: how many names have it, and which if not all."""
    for verdict, sentence in sentences.items():
        names = [name for name, answer in verdicts.items() if answer == verdict]
        if names:
            claim = sentence.format(f"{len(names)} of {len(verdicts)}")
            evidence = "" if len(names) == len(verdicts) else f"Namely: {', '.join(names)}."
            yield Finding(claim, evidence, verdict != NOT_SHOWN)


def _between(one: Any, other: Any, texts: Any) -> Effect | None:
    """The difference of two values with intervals over texts; None if either is missing."""
    if interval(one) is None or interval(other) is None:
        return None
    return effect_between(one, other, texts or 0)


def _logarithms(value: Any) -> dict[str, float] | None:
    """A positive value and its interval as logarithms; None if it is missing."""
    span = interval(value)
    if span is None or not span[0] > 0:
        return None
    return {name: math.log(value[name]) for name in ("value", "low", "high")}


# ---------------------------------------------------------------- what the model predicts and writes


def _training(run: ReportData) -> Iterator[Question]:
    """The model compared with n-grams, story by story, and with the generator's floor."""
    once = run.scored_once()
    baselines = run.tree("evaluate").baselines
    ngrams = baselines.kneser_ney
    stories = ngrams.difference.stories
    yield Question(
        ("ngrams",),
        _between(ngrams.difference, _ZERO, stories),
        "training",
        f"The model predicts {{}} than the Kneser-Ney {count(ngrams.order)}-gram model.",
        ("worse", "better"),
        f"Perplexity {number(once.perplexity)} compared with {number(ngrams.perplexity)}. On the same stories, "
        f"the model's loss minus the n-grams' loss is {with_interval(ngrams.difference, loss)} nats per token.",
    )
    low, high = interval(once.perplexity_interval) or (None, None)
    model = _logarithms({"value": once.perplexity, "low": low, "high": high})
    floor = baselines.floor.nats_per_token
    yield Question(
        ("floor",),
        _between(model, {"value": floor, "low": floor, "high": floor}, stories),
        "training",
        "The loss is {}.",
        (
            "above the generator's floor",
            "below the generator's floor, which is implausible without leakage",
        ),
        f"{loss(once.nats_per_token)} compared with {loss(floor)} nats per token.",
    )


def _generation(run: ReportData) -> Iterator[Question]:
    """How much sampled text shares with the training stories, compared with the stories' own continuations."""
    memorised = run.tree("evaluate").memorised
    sampled = memorised.continuations
    stories = memorised.references
    texts = min(sampled["count"] or 0, stories["count"] or 0)
    yield Question(
        ("shared",),
        _between(sampled.nearest, stories.nearest, texts),
        "generation",
        "Sampled text shares {} 4-grams with its nearest training story than the references do.",
        ("more", "fewer"),
        f"Mean share: {share_with_interval(sampled.nearest)} compared with {share_with_interval(stories.nearest)}.",
    )


def _beams(run: ReportData) -> Iterator[Question]:
    """Probability, speed and errors of the widest beam, compared with greedy decoding."""
    methods = run.tree("beam_bench").methods
    speeds = run.tree("beam_bench_time").methods
    greedy = methods.greedy.sense.words
    beams = [name for name in methods if name.startswith("beam ") and name != "beam 1"]
    for name in beams[-1:]:
        search = f"Beam search of width {name.removeprefix('beam ')}"
        against = methods[name].against_greedy
        yield Question(
            ("log_prob", name),
            _between(against.difference, _ZERO, against.prompts),
            "beams",
            f"{search} finds {{}} probable text than greedy decoding.",
            ("more", "less"),
            f"Its log-probability minus that of greedy text: {with_interval(against.difference)} nats, "
            f"mean over {count(against.prompts)} prompts.",
        )
        pair = speeds[name], speeds.greedy
        effect, evidence = _ratio(run, "beam_bench", "tokens_per_s", speeds.values(), *pair)
        yield Question(
            ("beam_bench",),
            effect,
            "beams",
            f"{search} is {{}} than greedy decoding.",
            ("faster", "slower"),
            evidence,
        )
        texts = methods[name].sense.texts
        words = methods[name].sense.words
        yield Question(
            ("words", name),
            _between(_logarithms(words), _logarithms(greedy), texts),
            "beams",
            f"{search} makes {{}} errors than greedy decoding.",
            ("fewer", "more"),
            f"{with_interval(words)} words per error compared with {with_interval(greedy)}. "
            f"Each is over {count(texts)} texts.",
        )


def _roles(run: ReportData) -> dict[str, str]:
    """For each role, whether stage evaluate claims that a head has it."""
    best = roles(run).drop_duplicates("role")
    return {
        role: HIGHER if is_claimed else NOT_SHOWN
        for role, is_claimed in zip(best["role"], best["claimed"])
    }


def _heads(run: ReportData) -> Iterator[Question]:
    """The loss that each head's ablation adds."""
    stories = run.tree("evaluate").heads.ablation.stories
    for head in run.rows("ablation"):
        added = {"value": head["loss_increase"], "low": head["low"], "high": head["high"]}
        yield Question(("head", f"{head['layer']}.{head['head']}"), _between(added, _ZERO, stories))


# ---------------------------------------------------------------- what it costs


def _times(run: ReportData) -> Iterator[Question]:
    """Two benches at their greatest size: the time with the cache, or with recomputation, and without."""
    settings = run.tree("kv_bench_time").settings or []
    with_cache, without = _largest(settings, "new_tokens", "cache")
    effect, evidence = _ratio(run, "kv_bench", "tokens_per_s", settings, with_cache, without)
    yield Question(
        ("kv_bench",),
        effect,
        "cache",
        f"Decoding {with_cache.new_tokens} tokens is {{}} with the key-value cache.",
        ("faster", "slower"),
        evidence,
    )
    settings = run.tree("ckpt_bench_time").settings or []
    recomputed, stored = _largest(settings, "layers", "recompute")
    effect, evidence = _ratio(run, "ckpt_bench", "step_s", settings, recomputed, stored)
    yield Question(
        ("ckpt_bench",),
        effect,
        "checkpointing",
        f"A training step of {recomputed.layers} layers is {{}} with checkpointing.",
        ("slower", "faster"),
        evidence,
    )


def _largest(settings: list[Tree], size: str, switch: str) -> tuple[Tree, Tree]:
    """The settings of the greatest size, with the switch on and off; empty if not measured."""
    largest = max((row[size] for row in settings), default=None)
    by_switch = {row[switch]: row for row in settings if row[size] == largest}
    return by_switch.get(True, Tree()), by_switch.get(False, Tree())


def _ratio(
    run: ReportData, bench: str, key: str, settings: Iterable[Tree], row: Tree, base: Tree
) -> tuple[Effect | None, str]:
    """The logarithm of the ratio of two median times, and both in words.

    The variance is the mean over all settings of the bench, or over these two if they vary more.
    """
    value = as_number(row[key])
    other = as_number(base[key])
    trials = run.param(bench, "repeats") or 1
    variances = [_variance(setting, key, trials) for setting in settings]
    measured = [variance for variance in variances if variance is not None]
    if not value or not other or not measured:
        return None, ""
    both = [_variance(row, key, trials) or 0.0, _variance(base, key, trials) or 0.0]
    variance = max(fmean(measured), fmean(both))
    ratio = math.log(value / other)
    half = Z95 * math.sqrt(2 * variance / trials)
    degrees = len(measured) * (trials - 1)
    effect = Effect(ratio, ratio - half, ratio + half, degrees + 1, pooled=True)
    both_times = f"{number(value)} compared with {number(other)} {_UNITS[key]}"
    return effect, f"{both_times}, a ratio of {number(value / other)}."


def _variance(row: Tree, key: str, trials: int) -> float | None:
    """An upper bound of the variance of a time's logarithm (Popoviciu), exact for two trials."""
    span = interval([row[f"low_{key}"], row[f"high_{key}"]])
    if trials < 2 or span is None or not span[0] > 0:
        return None
    return math.log(span[1] / span[0]) ** 2 / 4 * trials / (trials - 1)
