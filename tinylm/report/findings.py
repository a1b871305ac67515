"""What the metrics of a run show, and what they do not show.

A rule takes a run and what may be claimed of its effects (effects.py), and yields findings. Without
its metrics it yields none.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Literal

from tinylm.evaluate.statistics import HIGHER, LOWER, NOT_SHOWN, SAME
from tinylm.report.effects import NEAR_FLOOR, Claims, Key
from tinylm.report.sources import Run, as_number
from tinylm.report.wording import count, loss, number, share, share_with_interval, with_interval

RARE = 0.01  # a smaller share of unknown words is ignored


@dataclasses.dataclass(frozen=True)
class Finding:
    """A sentence and the numbers behind it.

    kind: "shown", a claim that the numbers support; "measured", a number of this run; "open", a
    question that they leave.
    """

    claim: str
    evidence: str
    kind: Literal["shown", "measured", "open"]


Rule = Callable[[Run, Claims], Iterator[Finding]]


def shown(claim: str, evidence: str = "") -> Finding:
    """A claim. Only for what `claims_of` claims."""
    return Finding(claim, evidence, "shown")


def measured(claim: str, evidence: str = "") -> Finding:
    """A number, or an equality that was checked exactly."""
    return Finding(claim, evidence, "measured")


def not_shown(claim: str, evidence: str = "") -> Finding:
    """An open question."""
    return Finding(claim, evidence, "open")


def compare(
    claims: Claims, key: Key, claim: str, words: tuple[str, str], evidence: str
) -> Iterator[Finding]:
    """What may be claimed of an effect, or the open question; nothing if it was not measured.

    words: fill {} if the effect is higher, or lower.
    """
    if key not in claims:
        return
    verdict = claims[key].verdict
    if verdict == NOT_SHOWN:
        question = claim.format(words[0])
        yield not_shown(f"Whether {question[0].lower()}{question[1:]}", evidence)
    else:
        yield shown(claim.format(words[0] if verdict == HIGHER else words[1]), evidence)


# ---------------------------------------------------------------- what the model predicts


def compare_with_ngrams(run: Run, claims: Claims) -> Iterator[Finding]:
    """Does the model predict better than n-gram counts do?"""
    metrics = run.scored_once()
    ngrams = run.tree("evaluate").baselines.kneser_ney
    difference = with_interval(ngrams.difference, loss)
    yield from compare(
        claims,
        ("ngrams",),
        f"The model predicts {{}} than the Kneser-Ney {count(ngrams.order)}-gram model.",
        ("worse", "better"),
        f"Perplexity {number(metrics.perplexity)} compared with {number(ngrams.perplexity)}. Over the "
        f"same stories the loss differs by {difference} nats per token.",
    )


def compare_with_floor(run: Run, claims: Claims) -> Iterator[Finding]:
    """How far is the model from the generator that wrote the text?"""
    model = as_number(run.scored_once().nats_per_token)
    floor = run.tree("evaluate").baselines.floor.nats_per_token
    if model is None:
        return
    if ("floor",) not in claims:
        yield not_shown("How much better a model could get.", "This text has no known floor.")
        return
    evidence = f"{loss(model)} compared with {loss(floor)} nats per token."
    verdict = claims["floor",].verdict
    near = f"within {number(NEAR_FLOOR, 1)} nats per token of the generator's floor"
    if verdict == LOWER:
        claim = "The loss is below the generator's own floor, which is implausible without leakage."
        yield shown(claim, evidence)
    elif verdict == SAME:
        yield shown(f"The loss is {near}.", evidence)
    elif verdict == HIGHER:
        yield shown("The loss is above the generator's floor.", evidence)
    else:
        yield not_shown(f"Whether the loss is {near}.", evidence)


def describe_fit(run: Run, _: Claims) -> Iterator[Finding]:
    """The losses at the end, and when the held-out loss was lowest."""
    train = run.tree("train")
    last = as_number(train.held_out_loss_last)
    train_loss = as_number(train.train_loss)
    if train_loss is None or last is None:
        return
    claim = f"At the end the loss is {loss(train_loss)} on train and {loss(last)} on held-out text."
    lowest = f"{loss(train.held_out_loss_best)}, at update {count(train.best_update)}"
    yield measured(claim, f"The lowest held-out loss was {lowest}.")


def judge_unknown(run: Run, _: Claims) -> Iterator[Finding]:
    """Do unknown words make the perplexity lower?"""
    unknown = as_number(run.tree("evaluate").unknown_share)
    if unknown is not None and unknown > RARE and run.token() == "word":
        why = f"{share(unknown)} of the evaluation words are <unk>, which is easier to predict."
        yield not_shown("How well rare words are predicted.", why)


# ---------------------------------------------------------------- what the model writes


def compare_samples(run: Run, claims: Claims) -> Iterator[Finding]:
    """Are sampled continuations more predictable, or closer to training text, than the stories?"""
    samples = run.tree("evaluate").samples
    sampled = with_interval(samples.continuation_perplexity)
    stories = with_interval(samples.reference_perplexity)
    yield from compare(
        claims,
        ("predictable",),
        "Sampled text is {} predictable for the model than the stories.",
        ("less", "more"),
        f"Perplexity {sampled} compared with {stories}. Each is over {count(samples['count'])} texts.",
    )
    memorised = run.tree("evaluate").memorised
    sampled = with_interval(memorised.continuations.longest_run)
    stories = with_interval(memorised.references.longest_run)
    yield from compare(
        claims,
        ("shared",),
        "Sampled text shares {} word sequences with the training text than the stories do.",
        ("longer", "shorter"),
        f"Words of the longest, mean over texts: {sampled} compared with {stories}.",
    )


def judge_beams(run: Run, claims: Claims) -> Iterator[Finding]:
    """Is the text of the widest beam more probable than greedy text, with fewer errors?"""
    methods = run.tree("beam_bench").methods
    speeds = run.tree("beam_bench_time").methods
    greedy = methods.greedy.sense.words
    widths = [name for name in methods if name.startswith("beam ") and name != "beam 1"]
    for name in ("sampling", "greedy", *widths[-1:]):
        if speed := speeds[name].tokens_per_s:
            bleu = number(methods[name].bleu4)
            label = name.replace("greedy", "greedy decoding").replace("beam", "a beam of width")
            yield measured(
                f"With {label}, the speed is {number(speed)} tokens/s and BLEU-4 {bleu}."
            )
    for name in widths[-1:]:
        method = methods[name]
        width = f"Beam search of width {name.removeprefix('beam ')}"
        yield from compare(
            claims,
            ("beam_bench_time", name),
            f"{width} is {{}} than greedy decoding.",
            ("faster", "slower"),
            "",
        )
        against = method.against_greedy
        yield from compare(
            claims,
            ("log_prob", name),
            f"{width} finds {{}} probable text than greedy decoding.",
            ("more", "less"),
            f"A text's log-probability differs by {with_interval(against.difference)} nats over "
            f"{count(against.prompts)} prompts.",
        )
        words = method.sense.words
        yield from compare(
            claims,
            ("words", name),
            f"{width} makes {{}} errors than greedy decoding.",
            ("fewer", "more"),
            f"{with_interval(words)} words per error compared with {with_interval(greedy)}. Each is over "
            f"{count(method.sense.texts)} texts.",
        )


def describe_sense(run: Run, _: Claims) -> Iterator[Finding]:
    """Do the texts make sense? By everything that this corpus allows."""
    evaluate = run.tree("evaluate")
    decoded = evaluate.sense.methods.decode
    if decoded.texts:
        consistent = count(decoded.possible.value * decoded.texts)
        claim = f"The generator could have written {consistent} of {count(decoded.texts)} continuations."
        evidence = ""
        if decoded.words:
            kind = max(decoded.kinds, key=lambda name: decoded.kinds[name])
            evidence = (
                f"There is one error per {with_interval(decoded.words)} words; the most "
                f"frequent kind is “{kind}”."
            )
        yield measured(claim, evidence)
    if evaluate.samples:
        repeated = share(evaluate.samples.repeated_4grams)
        stories = share(evaluate.samples.reference_repeated_4grams)
        yield measured(
            f"The continuations repeat {repeated} of their 4-grams, the true stories {stories}."
        )
    sampled = evaluate.memorised.continuations.nearest
    if sampled:
        nearest = share_with_interval(sampled)
        claim = f"The nearest training story shares {nearest} of a continuation's 4-grams."
        stories = share_with_interval(evaluate.memorised.references.nearest)
        yield measured(claim, f"For the true stories the share is {stories}.")
    if (seen := evaluate.memorised.openings_seen) or seen == 0:
        prompts = count(evaluate.samples["count"])
        yield measured(f"{count(seen)} of {prompts} openings begin a training story too.")


def judges(run: Run) -> list[str]:
    """By what the sense of this run's texts was judged."""
    evaluate = run.tree("evaluate")
    used = {
        "the generator's verdict": evaluate.sense.methods.decode.texts,
        "repetition": evaluate.samples,
        "distance to the nearest training story": evaluate.memorised.continuations.nearest,
        "openings seen in training": evaluate.memorised.openings_seen != {},
        "minimal pairs": evaluate.pairs.all.model,
    }
    return [name for name, value in used.items() if value]


def judge_pairs(run: Run, claims: Claims) -> Iterator[Finding]:
    """What has the model learnt, compared with chance, an untrained model and n-grams?"""
    pairs = run.tree("evaluate").pairs
    learnt: dict[str, list[str]] = {HIGHER: [], LOWER: [], NOT_SHOWN: []}
    against_ngrams: dict[str, list[str]] = {HIGHER: [], LOWER: [], NOT_SHOWN: []}
    for name in pairs.phenomena:
        if ("chance", name) in claims:
            verdicts = {claims[than, name].verdict for than in ("chance", "untrained")}
            verdict = verdicts.pop() if len(verdicts) == 1 else NOT_SHOWN
            learnt[verdict].append(name)
            against_ngrams[claims["kneser_ney", name].verdict].append(name)
    if not any(learnt.values()):
        return
    means = pairs.all
    claim = f"The model prefers the right sentence in {share(means.model)} of the minimal pairs."
    untrained = share(means.untrained)
    yield measured(claim, f"N-grams: {share(means.kneser_ney)}; an untrained model: {untrained}.")
    lists = (
        (shown, "The model has learnt some phenomena.", learnt[HIGHER]),
        (shown, "The model prefers the wrong sentence in some phenomena.", learnt[LOWER]),
        (not_shown, "Whether the model has learnt some other phenomena.", learnt[NOT_SHOWN]),
        (
            shown,
            "The model is right more often than n-grams in some phenomena.",
            against_ngrams[HIGHER],
        ),
        (shown, "N-grams are right more often in some phenomena.", against_ngrams[LOWER]),
    )
    for verdict_of, claim, names in lists:
        if names:
            yield verdict_of(claim, f"These are: {', '.join(names)}.")


# ---------------------------------------------------------------- what one run cannot show


def limits(run: Run, _: Claims) -> Iterator[Finding]:
    """What one run cannot show."""
    seeds = run.tree("seeds")
    if seeds.perplexity.difference:
        difference = number(seeds.perplexity.difference)
        yield measured(
            f"Perplexities that differ by less than {difference} may differ by the seed alone.",
            f"The mean over {count(seeds.n)} seeds is {number(seeds.perplexity.mean)}. The standard "
            f"deviation is {number(seeds.perplexity.sd)}.",
        )
    else:
        why = "There is one seed; the intervals cover only the choice of evaluation text."
        yield not_shown("Whether a small difference from another run is real.", why)


SECTIONS: dict[str, tuple[Rule, ...]] = {  # of the report
    "training": (compare_with_ngrams, compare_with_floor, describe_fit, judge_unknown, limits),
    "generation": (describe_sense, compare_samples),
    "beams": (judge_beams,),
    "pairs": (judge_pairs,),
}
