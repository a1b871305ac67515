"""What a run shows, and what it does not show.

A rule takes a run and what may be claimed of its effects (effects.py), and yields findings. If the
run lacks the metrics, it yields none. The templates have the numbers from which nothing is claimed.
"""

import dataclasses
from collections.abc import Callable, Iterator

from tinylm.evaluate.statistics import HIGHER, LOWER, NOT_SHOWN, SAME
from tinylm.report.effects import NEAR_FLOOR, Claims, Key, relative, timed_pairs
from tinylm.report.sources import Run, as_number
from tinylm.report.wording import count, loss, many, number, share, with_interval

RARE = 0.01  # a smaller share of unknown words is ignored


@dataclasses.dataclass(frozen=True)
class Finding:
    """A claim that the run supports, or a question that it leaves open, with the numbers behind it."""

    claim: str
    evidence: str
    is_shown: bool


Rule = Callable[[Run, Claims], Iterator[Finding]]


def shown(claim: str, evidence: str = "") -> Finding:
    """A claim. Only for what `claims_of` claims."""
    return Finding(claim, evidence, True)


def not_shown(claim: str, evidence: str = "") -> Finding:
    """An open question."""
    return Finding(claim, evidence, False)


def compare(
    claims: Claims, key: Key, claim: str, words: tuple[str, str], evidence: str
) -> Iterator[Finding]:
    """The claim about an effect, or the open question; nothing if the effect was not measured.

    words: what replaces {} in the claim if the effect is higher, and if it is lower.
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
        f"Perplexity {number(metrics.perplexity)} compared with {number(ngrams.perplexity)}. On the "
        f"same stories, the model's loss minus the n-grams' loss is {difference} nats per token.",
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
    near = f"within {number(NEAR_FLOOR, 1)} nats per token of the generator's floor"
    sentences = {
        LOWER: "The loss is below the generator's own floor, which is implausible without leakage.",
        SAME: f"The loss is {near}.",
        HIGHER: "The loss is above the generator's floor.",
        NOT_SHOWN: f"Whether the loss is {near}.",
    }
    verdict = claims["floor",].verdict
    evidence = f"{loss(model)} compared with {loss(floor)} nats per token."
    yield Finding(sentences[verdict], evidence, verdict != NOT_SHOWN)


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
        f"Mean length of the longest one, in words: {sampled} compared with {stories}.",
    )


def judge_beams(run: Run, claims: Claims) -> Iterator[Finding]:
    """Is the text of the widest beam more probable than greedy text, with fewer errors?"""
    methods = run.tree("beam_bench").methods
    greedy = methods.greedy.sense.words
    beams = [name for name in methods if name.startswith("beam ")]
    for name in beams[-1:]:
        method = methods[name]
        width = f"Beam search of width {name.removeprefix('beam ')}"
        yield from compare(
            claims,
            ("beam_bench_time", name),
            f"{width} is {{}} than greedy decoding.",
            ("faster", "slower"),
            f"Speed relative to greedy: {relative(run, claims, 'beam_bench_time', name)}.",
        )
        against = method.against_greedy
        yield from compare(
            claims,
            ("log_prob", name),
            f"{width} finds {{}} probable text than greedy decoding.",
            ("more", "less"),
            f"Its log-probability minus that of greedy text: {with_interval(against.difference)} nats, "
            f"mean over {count(against.prompts)} prompts.",
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


# ---------------------------------------------------------------- what it costs


def judge_cache(run: Run, claims: Claims) -> Iterator[Finding]:
    """Is decoding the longest text faster with the key-value cache?"""
    bench = "kv_bench_time"
    pairs = timed_pairs(run, bench)
    for index in [index for index, (row, _) in pairs.items() if row.cache is True][-1:]:
        cache, without = pairs[index]
        yield from compare(
            claims,
            (bench, index),
            f"Decoding {count(cache.new_tokens)} tokens is {{}} with the key-value cache.",
            ("faster", "slower"),
            f"{number(cache.tokens_per_s)} compared with {number(without.tokens_per_s)} tokens/s. Speed "
            f"relative to no cache: {relative(run, claims, bench, index)}.",
        )


def judge_recompute(run: Run, claims: Claims) -> Iterator[Finding]:
    """Is a training step at the greatest depth slower with recomputation?"""
    bench = "ckpt_bench_time"
    pairs = timed_pairs(run, bench)
    for index in [index for index, (row, _) in pairs.items() if row.recompute is True][-1:]:
        yield from compare(
            claims,
            (bench, index),
            f"A training step with {many(pairs[index][0].layers, 'layer')} is {{}} with checkpointing.",
            ("slower", "faster"),
            f"Time relative to no recompute: {relative(run, claims, bench, index)}.",
        )


def one_seed(run: Run, _: Claims) -> Iterator[Finding]:
    """What one run cannot show."""
    if not run.tree("seeds").perplexity.difference:
        why = "There is one seed; the intervals cover only the choice of evaluation text."
        yield not_shown("Whether a small difference from another run is real.", why)


SECTIONS: dict[str, tuple[Rule, ...]] = {  # of the report
    "training": (compare_with_ngrams, compare_with_floor, judge_unknown, one_seed),
    "generation": (compare_samples,),
    "beams": (judge_beams,),
    "cache": (judge_cache,),
    "accumulation": (),
    "checkpointing": (judge_recompute,),
    "pairs": (judge_pairs,),
}
