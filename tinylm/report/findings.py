"""What the metrics of a run show, and what they do not show.

A rule takes a run and yields findings; without its metrics it yields none. Two intervals that
overlap never support a claim.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Literal

from tinylm.report.sources import Run, as_number
from tinylm.report.wording import count, ends, interval, loss, number, share, with_interval

NEAR_FLOOR, GAP, RISE = 0.10, 0.10, 0.02  # nats per token: below these "close", "no gap", "no rise"
RARE = 0.01  # a smaller share of unknown words is ignored
CHANCE = 0.5  # of finding the right one of two sentences

Relation = Literal["above", "below", "unclear", "missing"]


@dataclasses.dataclass(frozen=True)
class Finding:
    """A claim as a sentence, the numbers behind it, and whether they show it."""

    claim: str
    evidence: str
    is_shown: bool


Rule = Callable[[Run], Iterator[Finding]]


def shown(claim: str, evidence: str = "") -> Finding:
    """A claim that the numbers show."""
    return Finding(claim, evidence, True)


def not_shown(claim: str, evidence: str = "") -> Finding:
    """A claim that the numbers do not show: an open question."""
    return Finding(claim, evidence, False)


def relation(one: Any, other: Any) -> Relation:
    """Compare two values: numbers, intervals [low, high] or {"value", "low", "high"}."""
    low, high = interval(one) or (as_number(one), as_number(one))
    other_low, other_high = interval(other) or (as_number(other), as_number(other))
    if low is None or high is None or other_low is None or other_high is None:
        return "missing"
    if low > other_high:
        return "above"
    return "below" if high < other_low else "unclear"


def compare(
    one: Any, other: Any, claim: str, words: tuple[str, str], evidence: str
) -> Iterator[Finding]:
    """The claim that two values support, or an open question if their intervals overlap.

    words: fill {} if the first value is above, or below. Yields nothing if a value is missing.
    """
    how = relation(one, other)
    if how == "unclear":
        question = claim.format(words[0])
        yield not_shown(f"Whether {question[0].lower()}{question[1:]}", evidence)
    elif how != "missing":
        yield shown(claim.format(words[0] if how == "above" else words[1]), evidence)


# ---------------------------------------------------------------- what the model predicts


def compare_with_ngrams(run: Run) -> Iterator[Finding]:
    """Does the model predict better than n-gram counts do?"""
    metrics = run.scored_once()
    ngrams = run.tree("evaluate").baselines.kneser_ney
    span = ends(metrics.perplexity_interval)
    in_brackets = f" (95 % interval {span})" if span else ""
    model = f"{number(metrics.perplexity)}{in_brackets}"
    yield from compare(
        ngrams.perplexity,
        metrics.perplexity_interval or metrics.perplexity,
        f"The model {{}} the Kneser-Ney {count(ngrams.order)}-gram model.",
        ("predicts better than", "does not predict better than"),
        f"Perplexity {model} against {number(ngrams.perplexity)}.",
    )


def compare_with_floor(run: Run) -> Iterator[Finding]:
    """How far is the model from the generator that wrote the text?"""
    model = as_number(run.scored_once().nats_per_token)
    floor = as_number(run.tree("evaluate").baselines.floor.nats_per_token)
    if model is None:
        return
    if floor is None:
        yield not_shown("How much better a model could get.", "This text has no known floor.")
        return
    evidence = f"{loss(model)} against {loss(floor)} nats per token."
    if model < floor:
        claim = "The loss is below the generator's own floor, which is implausible without leakage."
    elif model - floor < NEAR_FLOOR:
        claim = "The model is close to the generator's floor."
    else:
        claim = "The model is well above the generator's floor."
    yield shown(claim, evidence)


def judge_fit(run: Run) -> Iterator[Finding]:
    """Does the model overfit? From the gap between the losses and the update of the lowest one."""
    train = run.tree("train")
    last = as_number(train.held_out_loss_last)
    train_loss = as_number(train.train_loss)
    if train_loss is None or last is None:
        return
    losses = (
        f"At the end the loss is {loss(train_loss)} on train and {loss(last)} on held-out text."
    )
    if last - (train.held_out_loss_best or last) > RISE:
        lowest = f"The held-out loss was lowest at update {count(train.best_update)}."
        yield shown("The model overfits.", f"{losses} {lowest}")
    elif last - train_loss > GAP:
        yield shown("The model begins to overfit.", losses)
    elif (train.epochs or 2) <= 1 and run.param("train", "layout") != "windows":
        why = "No story was read twice, so the train loss is that of unseen text too."
        yield shown("There is no sign of overfitting.", f"{losses} {why}")
    else:
        yield shown("There is no sign of overfitting.", losses)
    if train.updates and train.best_update == train.updates:
        claim = "The held-out loss had not begun to rise when the run ended."
        yield shown(claim, "Its last value is the lowest of the run.")


def judge_unknown(run: Run) -> Iterator[Finding]:
    """Do unknown words make the perplexity lower?"""
    unknown = as_number(run.tree("evaluate").unknown_share)
    if unknown is not None and unknown > RARE and run.token() == "word":
        why = f"{share(unknown)} of the evaluation words are <unk>, which is easier to predict."
        yield not_shown("How well rare words are predicted.", why)


# ---------------------------------------------------------------- what the model writes


def compare_samples(run: Run) -> Iterator[Finding]:
    """Are sampled continuations more predictable, or closer to training text, than the stories?"""
    samples = run.tree("evaluate").samples
    sampled = samples.continuation_perplexity
    stories = samples.reference_perplexity
    yield from compare(
        stories,
        sampled,
        "Sampled text is {} predictable for the model than the stories.",
        ("more", "less"),
        f"Perplexity {with_interval(sampled)} against {with_interval(stories)}.",
    )
    memorised = run.tree("evaluate").memorised
    sampled = memorised.continuations.longest_run
    stories = memorised.references.longest_run
    yield from compare(
        sampled,
        stories,
        "Sampled text shares {} word sequences with the training text than the stories do.",
        ("longer", "shorter"),
        f"Words of the longest: {with_interval(sampled)} against {with_interval(stories)}.",
    )


def judge_beams(run: Run) -> Iterator[Finding]:
    """Does a wider beam find more probable text, with fewer errors, than greedy decoding?"""
    methods = run.tree("beam_bench").methods
    greedy = methods.greedy.sense.words
    for name, method in methods.items():
        if not name.startswith("beam ") or name == "beam 1":
            continue
        width = f"Beam search of width {name.removeprefix('beam ')}"
        difference = method.against_greedy.difference
        yield from compare(
            difference,
            0,
            f"{width} finds {{}} probable text than greedy decoding.",
            ("more", "less"),
            f"A text's log-probability differs by {with_interval(difference)} nats.",
        )
        words = method.sense.words
        yield from compare(
            words,
            greedy,
            f"{width} makes {{}} errors than greedy decoding.",
            ("fewer", "more"),
            f"{with_interval(words)} words per error against {with_interval(greedy)}.",
        )


def judge_sense(run: Run) -> Iterator[Finding]:
    """Do the stories make sense?"""
    decoded = run.tree("evaluate").sense.methods.decode
    if not decoded.texts:
        return
    consistent = count(decoded.possible.value * decoded.texts)
    claim = (
        f"The generator could have written {consistent} of {count(decoded.texts)} continuations."
    )
    evidence = ""
    if decoded.words:
        kind = max(decoded.kinds, key=lambda name: decoded.kinds[name])
        evidence = (
            f"{with_interval(decoded.words)} words per error; most errors are of kind “{kind}”."
        )
    yield shown(claim, evidence)


def judge_pairs(run: Run) -> Iterator[Finding]:
    """What has the model learnt, compared with chance, an untrained model and n-grams?

    Pairs share words, so their intervals are a little too narrow. A claim must hold against chance
    and against the untrained model.
    """
    pairs = run.tree("evaluate").pairs
    learnt: dict[Relation, list[str]] = {"above": [], "below": [], "unclear": []}
    against_ngrams: dict[Relation, list[str]] = {"above": [], "below": [], "unclear": []}
    for name, row in pairs.phenomena.items():
        if row.model:
            verdict = relation(row.model, CHANCE)
            if verdict != relation(row.model, row.untrained or CHANCE):
                verdict = "unclear"
            learnt[verdict].append(name)
            against_ngrams[relation(row.model, row.kneser_ney or CHANCE)].append(name)
    if not any(learnt.values()):
        return
    means = pairs.all
    claim = f"The model prefers the right sentence in {share(means.model)} of the minimal pairs."
    untrained = share(means.untrained)
    yield shown(claim, f"N-grams: {share(means.kneser_ney)}; an untrained model: {untrained}.")
    lists = (
        (shown, "It has learnt some phenomena.", learnt["above"]),
        (shown, "It prefers the wrong sentence in some phenomena.", learnt["below"]),
        (not_shown, "Whether it has learnt some other phenomena.", learnt["unclear"]),
        (shown, "It is right more often than n-grams in some phenomena.", against_ngrams["above"]),
        (shown, "N-grams are right more often in some phenomena.", against_ngrams["below"]),
    )
    for verdict_of, claim, names in lists:
        if names:
            yield verdict_of(claim, f"These are: {', '.join(names)}.")


# ---------------------------------------------------------------- what one run cannot show


def limits(run: Run) -> Iterator[Finding]:
    """What one run cannot show."""
    seeds = run.tree("seeds")
    if seeds.perplexity.difference:
        difference = number(seeds.perplexity.difference)
        yield shown(
            f"Perplexities that differ by less than {difference} may differ by the seed alone.",
            f"Mean of {count(seeds.n)} seeds: {number(seeds.perplexity.mean)}; standard deviation: "
            f"{number(seeds.perplexity.sd)}.",
        )
    else:
        why = "There is one seed; the intervals cover only the choice of evaluation text."
        yield not_shown("Whether a small difference from another run is real.", why)


RULES: tuple[Rule, ...] = (
    compare_with_ngrams,
    compare_with_floor,
    judge_fit,
    judge_unknown,
    compare_samples,
    judge_sense,
    judge_beams,
    judge_pairs,
)
