"""What the numbers of a run show and what they do not show: each claim follows from metrics by a rule.

A rule looks at a run and returns findings; if its metrics are absent it returns none. Two intervals that overlap
never support a claim.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Literal

from tinylm.report.sources import Run, Tree, as_number
from tinylm.report.wording import (
    count,
    interval,
    loss,
    number,
    share,
    with_interval,
)

NEAR_FLOOR, GAP, RISE = 0.10, 0.10, 0.02  # nats per token: below these "close", "no gap", "no rise"
FEW_SAMPLES = 200  # continuations: below this BLEU-4 moves with the draw
RARE = 0.01  # share of unknown words that hardly matters
CHANCE = 0.5  # of finding the right one of two sentences

Relation = Literal["above", "below", "unclear"]


@dataclasses.dataclass(frozen=True)
class Finding:
    """A claim as a sentence, the numbers that it rests on, and the verdict whether they show it."""

    claim: str
    evidence: str
    is_shown: bool


def shown(claim: str, evidence: str = "") -> Finding:
    """The numbers show it."""
    return Finding(claim, evidence, True)


def not_shown(claim: str, evidence: str = "") -> Finding:
    """The numbers do not show it: a question that stays open."""
    return Finding(claim, evidence, False)


def relation(one: Any, other: Any) -> Relation:
    """How one value lies to another, each a number or an interval: [low, high] or {"value", "low", "high"}."""
    low, high = interval(one) or (as_number(one), as_number(one))
    other_low, other_high = interval(other) or (as_number(other), as_number(other))
    if low is None or high is None or other_low is None or other_high is None:
        return "unclear"
    if low > other_high:
        return "above"
    return "below" if high < other_low else "unclear"


def by_relation(
    one: Any, other: Any, *, above: str, below: str, unclear: str, evidence: str
) -> Finding:
    """The claim that fits how two values lie; where they overlap, the open question."""
    how = relation(one, other)
    if how == "unclear":
        return not_shown(unclear, f"The intervals overlap: {evidence}")
    return shown(above if how == "above" else below, evidence)


# ---------------------------------------------------------------- what the model predicts


def compare_with_ngrams(run: Run) -> list[Finding]:
    """Does the model predict better than counting words does, and by which factor?"""
    metrics = run.scored_once()
    ngrams = run.tree("evaluate").baselines.kneser_ney
    model = as_number(metrics.perplexity)
    other = as_number(ngrams.perplexity)
    if not model or not other:
        return []
    name = f"the Kneser-Ney {count(ngrams.order)}-gram model"
    factor = number(max(model, other) / min(model, other))
    span = interval(metrics.perplexity_interval)
    ends = f" (95 % interval {number(span[0])} to {number(span[1])})" if span else ""
    evidence = f"Perplexity {number(model)}{ends} against {number(other)}, a factor of {factor}."
    if run.mapping("evaluate", "once"):
        evidence += (
            " Each target is scored once; the perplexity over every window of stride 1, "
            f"{number(run.tree('evaluate').perplexity)}, is another protocol."
        )
    finding = by_relation(
        metrics.perplexity_interval or model,
        other,
        above=f"The model does not beat {name}: counting short word sequences predicts better.",
        below=f"The model beats {name}: it has learnt more than short word sequences.",
        unclear=f"Whether the model beats {name}.",
        evidence=evidence,
    )
    return [finding]


def compare_with_floor(run: Run) -> list[Finding]:
    """How far is the model from the generator that wrote the text?"""
    model = as_number(run.scored_once().nats_per_token)
    floor = as_number(run.tree("evaluate").baselines.floor.nats_per_token)
    if model is None:
        return []
    if floor is None:
        return [not_shown("How much better a model could get: this text has no known floor.")]
    gap = model - floor
    evidence = f"{loss(model)} against {loss(floor)} nats per token, {loss(abs(gap))} apart."
    if gap < 0:
        claim = (
            "The loss lies below the generator's own floor, which is implausible without leakage: evaluation "
            "text is in training, or a measurement is wrong."
        )
    elif gap < NEAR_FLOOR:
        claim = "The model is close to the generator's floor."
    else:
        claim = "The model is well above the generator's floor."
    return [shown(claim, evidence)]


def judge_fit(run: Run) -> list[Finding]:
    """Over- or underfitting, from the gap between train and held-out and from where the best loss was."""
    train = run.tree("train")
    train_loss, last = as_number(train.train_loss), as_number(train.held_out_loss_last)
    best, best_update = as_number(train.held_out_loss_best), as_number(train.best_update)
    if train_loss is None or last is None:
        return []
    gap = last - train_loss
    evidence = f"Train {loss(train_loss)}, held-out {loss(last)} nats per token at the end, a gap of {loss(gap)}."
    if best is not None and last - best > RISE:
        lowest = f"The held-out loss was lowest, {loss(best)}, at update {count(best_update)}."
        return [shown("The model overfits.", f"{lowest} {evidence}")]
    if gap > GAP:
        findings = [
            shown("The model begins to overfit: it knows the training text better.", evidence)
        ]
    else:
        read_once = (as_number(train.epochs) or 2.0) <= 1
        if read_once and run.param("train", "layout") != "windows":
            evidence += " No story was read twice: the train loss is one of unseen text as well."
        findings = [shown("There is no sign of overfitting.", evidence)]
    if best_update is not None and best_update >= (as_number(train.updates) or math.inf):
        claim = "The held-out loss had not begun to rise when the run ended."
        findings.append(shown(claim, "Its last value is the lowest of the run."))
    return findings


def judge_unknown(run: Run) -> list[Finding]:
    """Is the perplexity made easier by unknown words?"""
    unknown = as_number(run.tree("evaluate").unknown_share)
    if unknown is None or run.token() != "word":
        return []
    evidence = f"{share(unknown)} of the evaluation words are <unk>"
    if unknown > RARE:
        why = f"{evidence}, which is easier to predict than the words it stands for."
        return [not_shown("How well rare words are predicted.", why)]
    return [shown("Unknown words hardly flatter the perplexity.", f"{evidence}.")]


# ---------------------------------------------------------------- what the model writes


def compare_samples(run: Run) -> list[Finding]:
    """Are sampled continuations more predictable or more repetitive than the stories?"""
    samples = run.tree("evaluate").samples
    model = samples.continuation_perplexity
    stories = samples.reference_perplexity
    findings = []
    if interval(model) and interval(stories):
        findings.append(
            by_relation(
                model,
                stories,
                above="The model finds its own continuations less predictable than the true ones: sampling strays "
                "from what it considers likely.",
                below="The model finds its own continuations more predictable than the true ones: it writes safer "
                "text than it was trained on.",
                unclear="Whether the model finds its own continuations easier than the true ones.",
                evidence=f"Perplexity {with_interval(model)} against {with_interval(stories)}.",
            )
        )
    if interval(samples.repeated_4grams_interval):
        findings.append(
            by_relation(
                samples.repeated_4grams_interval,
                samples.reference_repeated_4grams_interval,
                above="Sampled text repeats itself more often than the stories.",
                below="Sampled text repeats itself less often than the stories.",
                unclear="Whether sampled text repeats itself more than the stories.",
                evidence=f"{share(samples.repeated_4grams)} of its 4-grams occurred before in the same text, against "
                f"{share(samples.reference_repeated_4grams)}.",
            )
        )
    return findings


def judge_memorised(run: Run) -> list[Finding]:
    """Does the model copy longer runs from train than the stories' own continuations share with train?"""
    memorised = run.tree("evaluate").memorised
    model = memorised.continuations
    stories = memorised.references
    if not interval(model.longest_run) or not interval(stories.longest_run):
        return []
    evidence = (
        f"The longest run has {with_interval(model.longest_run)} words on average, against "
        f"{with_interval(stories.longest_run)}; {share(model.new['4'].value)} of the 4-grams are new, against "
        f"{share(stories.new['4'].value)}."
    )
    findings = [
        by_relation(
            model.longest_run,
            stories.longest_run,
            above="The model's text shares longer runs with train than the stories' own continuations do: it takes "
            "to wordings that it has seen.",
            below="The model's text shares shorter runs with train than the stories' own continuations do.",
            unclear="Whether the model copies more from train than stories share by themselves.",
            evidence=evidence,
        )
    ]
    if as_number(model.whole):
        claim = f"{count(model.whole)} of {count(model['count'])} continuations occur word for word in train."
        findings.append(shown(claim))
    return findings


def judge_bleu(run: Run) -> list[Finding]:
    """What BLEU can show with this many samples."""
    samples = run.tree("evaluate").samples
    texts = as_number(samples["count"])
    if texts is None:
        return []
    findings = [
        not_shown(
            "Whether the continuations are good stories.",
            "BLEU compares with the one way in which a story went on; a different good ending scores low.",
        )
    ]
    if texts < FEW_SAMPLES:
        evidence = (
            f"There are {count(texts)} continuations; BLEU-4 is {with_interval(samples.bleu4)}."
        )
        findings.append(not_shown("What small differences in BLEU mean.", evidence))
    return findings


def judge_beams(run: Run) -> list[Finding]:
    """Does a wider beam find more probable text than greedy decoding does?"""
    findings = []
    for name, method in run.table("beam_bench", "methods").items():
        compared = method.against_greedy
        difference = compared.difference
        if not name.startswith("beam ") or name == "beam 1" or not interval(difference):
            continue
        width = f"Beam search of width {name.removeprefix('beam ')}"
        low, high = interval(difference) or (0.0, 0.0)
        evidence = (
            f"The log-probability of a text is {loss(difference.value)} nats ({loss(low)} to {loss(high)}) above that "
            f"of greedy decoding on average; it is higher for {count(compared.higher)} and lower for "
            f"{count(compared.lower)} of {count(compared.prompts)} prompts."
        )
        how = relation(difference, 0)
        if how == "unclear":
            claim = f"Whether {width[0].lower()}{width[1:]} finds more probable text."
            findings.append(not_shown(claim, evidence))
        else:
            more = "more" if how == "above" else "less"
            findings.append(
                shown(f"{width} finds {more} probable text than greedy decoding.", evidence)
            )
    return findings


def judge_sense(run: Run) -> list[Finding]:
    """Do the stories make sense, and those of which beam search?"""
    sense = run.tree("evaluate").sense
    decoded = sense.methods.decode
    if not decoded.texts:
        return []
    possible = (as_number(decoded.possible.value) or 0.0) * decoded.texts
    claim = f"{count(possible)} of {count(decoded.texts)} continuations could have been written by the generator."
    evidence = ""
    if decoded.words:
        most = max(decoded.kinds.values())
        kinds = [f"“{kind}”" for kind, texts in decoded.kinds.items() if texts == most]
        evidence = f"{with_interval(decoded.words)} words are read per error; the most frequent kind is {', '.join(kinds)}."
    findings = [shown(claim, evidence)]
    return findings + _sense_of_beams(run)


def _sense_of_beams(run: Run) -> list[Finding]:
    methods = run.table("beam_bench", "methods")
    greedy = methods.get("greedy", Tree()).sense.words
    findings = []
    for name, method in methods.items():
        words = method.sense.words
        if not name.startswith("beam ") or name == "beam 1" or not words or not greedy:
            continue
        width = f"eam search of width {name.removeprefix('beam ')}"
        findings.append(
            by_relation(
                words,
                greedy,
                above=f"B{width} makes sense for longer than greedy decoding.",
                below=f"B{width} makes sense for less long than greedy decoding.",
                unclear=f"Whether b{width} makes sense for longer than greedy decoding.",
                evidence=f"{with_interval(words)} words per error against {with_interval(greedy)}.",
            )
        )
    return findings


def judge_pairs(run: Run) -> list[Finding]:
    """What the model knows better than chance and an untrained model, what not, and where n-grams know less.

    An untrained model's preferences are accidents; pairs share words, so that an interval is a little too narrow.
    To be above both guards against it.
    """
    pairs = run.tree("evaluate").pairs
    phenomena = {name: row for name, row in pairs.phenomena.items() if row.model}
    if not phenomena:
        return []
    by_verdict: dict[str, list[str]] = {"above": [], "below": [], "unclear": []}
    against_ngrams: dict[str, list[str]] = {"above": [], "below": [], "unclear": []}
    for name, row in phenomena.items():
        verdicts = {relation(row.model, CHANCE), relation(row.model, row.untrained or CHANCE)}
        verdict = verdicts.pop() if len(verdicts) == 1 else "unclear"
        by_verdict[verdict].append(f"{name} ({share(row.model.value)})")
        against_ngrams[relation(row.model, row.kneser_ney or CHANCE)].append(name)
    means = pairs.all
    caution = "Each interval is one at 95 %: of 20 about one misses by chance."
    findings = [
        shown(
            f"The model finds the right one of two sentences likelier in {share(means.model)} of the minimal pairs.",
            f"Mean over {count(len(phenomena))} phenomena; n-grams {share(means.kneser_ney)}, an untrained model "
            f"{share(means.untrained)}. In {count(len(by_verdict['above']))} phenomena the interval lies above both "
            f"50 % and that of an untrained model. {caution}",
        )
    ]
    lists = (
        (shown, "It prefers the wrong sentence in some phenomena.", by_verdict["below"]),
        (not_shown, "Whether it has learnt anything of other phenomena.", by_verdict["unclear"]),
        (shown, "It is right more often than n-grams in some phenomena.", against_ngrams["above"]),
        (shown, "N-grams are right more often than it in some phenomena.", against_ngrams["below"]),
    )
    findings += [verdict(claim, f"{', '.join(names)}.") for verdict, claim, names in lists if names]
    return findings


# ---------------------------------------------------------------- what one run cannot show


def limits(run: Run) -> list[Finding]:
    """What one run can never show."""
    findings = [_seeds(run)]
    if run.param("data", "source") == "storybook":
        why = "It has read and was evaluated on generated stories alone."
        findings.append(not_shown("How the model would do on natural stories.", why))
    perplexity = as_number(run.tree("evaluate").perplexity)
    if perplexity is None:
        return findings
    why = (
        "Perplexity depends on the vocabulary; only bits per byte compare across tokenizers, and only on the same "
        "text."
    )
    findings.append(not_shown("How the model compares with published ones.", why))
    held_out = as_number(run.tree("train").held_out_perplexity)
    if held_out and abs(math.log(perplexity / held_out)) > GAP:
        why = (
            f"{loss(math.log(held_out))} nats per token on held-out, {loss(math.log(perplexity))} on evaluation, by "
            "the same weights."
        )
        findings.append(not_shown("Why the losses on held-out and on evaluation differ.", why))
    return findings


def _seeds(run: Run) -> Finding:
    """What another seed would have changed."""
    seeds = run.tree("seeds")
    difference = as_number(seeds.perplexity.difference)
    if difference is None:
        why = (
            "This is one run with one seed. The intervals cover the choice of evaluation text only."
        )
        return not_shown("Whether a small difference to another run is real.", why)
    return shown(
        f"Two runs whose perplexities differ by less than {number(difference)} may differ by their seeds alone.",
        f"Over {count(seeds.n)} seeds the perplexity is {number(seeds.perplexity.mean)} ± {number(seeds.perplexity.sd)} "
        "(standard deviation).",
    )


RULES: tuple[Callable[[Run], list[Finding]], ...] = (
    compare_with_ngrams,
    compare_with_floor,
    judge_fit,
    judge_unknown,
    compare_samples,
    judge_sense,
    judge_bleu,
    judge_beams,
    judge_memorised,
    judge_pairs,
    limits,  # last on the page, after those of heads.py and cost_findings.py
)
