"""What the numbers of a run say and do not say: every sentence follows from figures by a rule that stands here.

A rule looks at a run and returns sentences; where its figures are absent it returns none. Two intervals that
overlap never support a claim.
"""

import math
from collections.abc import Callable

from tinylm.reporting.cost_findings import COST_RULES
from tinylm.reporting.finding import Finding, not_said, said
from tinylm.reporting.sources import Run, as_number
from tinylm.reporting.tendencies import tendencies
from tinylm.reporting.wording import count, figure, interval, loss, share

NEAR_FLOOR, GAP, RISE = 0.10, 0.10, 0.02  # nats a token: below these, "close", "no gap", "no rise"
FEW_SAMPLES = 200  # continuations: below this BLEU-4 moves with the draw
CLOSE = 0.02  # relative: two figures nearer than this are called equal
STANDS_OUT = 0.10  # weight above even attention, as in the table of heads


def compare_with_baselines(run: Run) -> list[Finding]:
    """Does the model predict better than counting words does, and by which factor?"""
    model = as_number(run.get("evaluate", "perplexity"))
    baselines = run.get("evaluate", "baselines")
    ends = interval(run.get("evaluate", "perplexity_interval"))
    row = baselines.get("kneser_ney") if isinstance(baselines, dict) else None
    other = as_number(row.get("perplexity")) if isinstance(row, dict) else None
    if model is None or other is None or model <= 0 or other <= 0:
        return []
    name = f"the Kneser-Ney {row['order']}-gram model" if row and row.get("order") else "the Kneser-Ney n-gram model"
    if ends and ends[0] <= other <= ends[1]:
        return [not_said(f"Whether the model beats {name} is open: the baseline's perplexity {figure(other)} lies "
                         f"inside the model's interval of {figure(ends[0])} to {figure(ends[1])}.")]  # fmt: skip
    if model < other:
        return [said(f"The model beats {name}: perplexity {figure(model)} against {figure(other)}, lower by the "
                     f"factor {figure(other / model)}. It has learnt more than short word sequences.")]  # fmt: skip
    return [said(f"The model does not beat {name}: perplexity {figure(model)} against {figure(other)}, higher by the "
                 f"factor {figure(model / other)}. Counting short word sequences predicts this text better.")]  # fmt: skip


def compare_with_floor(run: Run) -> list[Finding]:
    """How far is the model from the generator that wrote the text?"""
    model = as_number(run.get("evaluate", "nats_per_token"))
    floor = as_number(run.get("evaluate", "baselines", "floor", "nats_per_token"))
    if model is None:
        return []
    if floor is None:
        return [not_said("How much better a model could get: this text has no known floor.")]
    gap = model - floor
    if gap < 0:
        return [said(f"The loss lies {loss(-gap)} nats a token below the generator's own floor, which nothing honest "
                     "can do: the evaluation text leaks into training, or a measurement is wrong.")]  # fmt: skip
    where = "close to" if gap < NEAR_FLOOR else "well above"
    return [said(f"The model is {where} the generator's floor: {loss(gap)} nats a token above it "
                 f"({loss(model)} against {loss(floor)}).")]  # fmt: skip


def judge_fit(run: Run) -> list[Finding]:
    """Over- or underfitting, from the gap between train and held-out and from where the best loss was."""
    train, last = as_number(run.get("train", "train_loss")), as_number(run.get("train", "held_out_loss_last"))
    best, at = as_number(run.get("train", "held_out_loss_best")), as_number(run.get("train", "best_update"))
    updates = as_number(run.get("train", "updates"))
    if train is None or last is None:
        return []
    figures = f"train {loss(train)}, held-out {loss(last)} nats a token at the end"
    gap = last - train
    rose = best is not None and last - best > RISE
    if rose:
        return [said(f"The model overfits: the held-out loss was lowest ({loss(best)}) at update {count(at)} and has "
                     f"risen since ({figures}).")]  # fmt: skip
    found = []
    if gap > GAP:
        found.append(said(f"The model knows the training text better than unseen text ({figures}, a gap of {loss(gap)}): "
                          "it begins to overfit."))  # fmt: skip
    else:
        found.append(said(f"There is no sign of overfitting: {figures}, a gap of {loss(gap)}."))
    if at is not None and updates is not None and at >= updates:
        found.append(said("The last held-out loss is the lowest of the run: more training would probably lower it "
                          "further."))  # fmt: skip
    return found


def compare_samples(run: Run) -> list[Finding]:
    """Are sampled continuations more predictable or more repetitive than the stories?"""
    own, real = (run.get("evaluate", "samples", f"{who}_perplexity") for who in ("continuation", "reference"))
    a, b = interval(own), interval(real)
    found = []
    if a and b:
        text = f"{figure(own.get('value'))} against {figure(real.get('value'))}"
        if a[0] <= b[1] and b[0] <= a[1]:
            found.append(not_said("Whether the model finds its own continuations easier than the true ones: the "
                                  f"intervals overlap ({text})."))  # fmt: skip
        elif a[1] < b[0]:
            found.append(said("The model finds its own continuations more predictable than the true ones "
                              f"(perplexity {text}): it writes safer text than it was trained on."))  # fmt: skip
        else:
            found.append(said("The model finds its own continuations less predictable than the true ones "
                              f"(perplexity {text}): sampling strays from what it holds likely."))  # fmt: skip
    return found + _repetition(run)


def _repetition(run: Run) -> list[Finding]:
    own = as_number(run.get("evaluate", "samples", "repeated_4grams"))
    real = as_number(run.get("evaluate", "samples", "reference_repeated_4grams"))
    if own is None or real is None:
        return []
    how = "more often than" if own > real * (1 + CLOSE) else "less often than" if own < real * (1 - CLOSE) else "as often as"
    return [said(f"Sampled text repeats itself {how} the stories: {share(own)} of its 4-grams occurred before in the "
                 f"same text, against {share(real)}.")]  # fmt: skip


def judge_bleu(run: Run) -> list[Finding]:
    """What BLEU can carry with so many samples."""
    number = as_number(run.get("evaluate", "samples", "count"))
    ends = interval(run.get("evaluate", "samples", "bleu4"))
    if number is None:
        return []
    found = []
    if number < FEW_SAMPLES:
        spread = f", and its interval here is {figure(ends[0])} to {figure(ends[1])}" if ends else ""
        found.append(not_said(f"BLEU says little with {count(number)} continuations{spread}; read it for large "
                              "differences only."))  # fmt: skip
    found.append(not_said("Whether the continuations are good stories: BLEU compares with the one way in which a story went "
                          "on, and a different good ending scores low."))  # fmt: skip
    return found


def judge_unknown(run: Run) -> list[Finding]:
    """Is the perplexity made easier by unknown words?"""
    unknown = as_number(run.get("evaluate", "unknown_share"))
    if unknown is None:
        return []
    if unknown > 0.01:
        return [not_said(f"How well rare words are predicted: {share(unknown)} of the evaluation tokens are <unk>, "
                         "which is easier to predict than the words it stands for.")]  # fmt: skip
    return [said(f"Unknown words hardly flatter the perplexity: {share(unknown)} of the evaluation tokens are <unk>.")]


def judge_beams(run: Run) -> list[Finding]:
    """Does a wider beam find more probable text, and does it pay with repetition?"""
    methods = run.table("beam_bench", "methods")
    beams = sorted((int(width), name) for name in methods if (width := name.removeprefix("beam ")).isdigit())
    if not beams:
        return []
    widest = beams[-1][1]
    base = "sampling" if "sampling" in methods else beams[0][1]
    if widest == base:
        return []

    def both(key: str) -> tuple[float | None, float | None]:
        return as_number(methods[widest].get(key)), as_number(methods[base].get(key))

    (probable, probable_base), (repeats, repeats_base) = both("log_prob_per_token"), both("repeated_4grams")
    if probable is None or probable_base is None or repeats is None or repeats_base is None:
        return []
    likely, repetitive = probable > probable_base, repeats > repeats_base
    figures = (f"{loss(probable)} against {loss(probable_base)} nats a token, repeated 4-grams {share(repeats)} against "
               f"{share(repeats_base)}")  # fmt: skip
    name, other = widest.replace("beam ", "beam search of width "), "sampling" if base == "sampling" else base
    verdict = {
        (True, True): f"Text from {name} is more probable than from {other} but more repetitive",
        (True, False): f"Text from {name} is more probable than from {other} and not more repetitive",
        (False, True): f"Text from {name} is neither more probable than from {other} nor less repetitive",
        (False, False): f"Text from {name} is not more probable than from {other}, and not more repetitive",
    }[likely, repetitive]
    prompts = count(run.get("beam_bench", "prompts"))
    return [said(f"{verdict} ({figures}; {prompts} prompts).")]


def judge_heads(run: Run) -> list[Finding]:
    """Which tendencies stand out, and how many heads show none."""
    found = []
    for tendency in tendencies(run).values():
        if not tendency.is_weight or tendency.even is None:
            continue
        layer, head, value = tendency.highest()
        if value - tendency.even >= STANDS_OUT:
            found.append(f"{tendency.words} (layer {layer}, head {head}: {share(value)} of the weight, "
                         f"{share(tendency.even)} if spread evenly)")  # fmt: skip
    rows = run.rows("heads")
    if not rows:
        return []
    even = sum(row.get("interpretation") == "spread evenly" for row in rows)
    first = f"Heads specialise; strongest for each kind: {'; '.join(found)}." if found else "No head stands out from even attention."
    return [
        said(f"{first} {count(even)} of {count(len(rows))} heads show no measured tendency."),
        not_said("What a head is for: a weight shows where a head looks, not what the model does with what it finds."),
    ]


def limits(run: Run) -> list[Finding]:
    """What one run can never say."""
    found = [not_said("Whether a small difference to another run is real: this is one run with one seed, and other "
                      "seeds give other figures. The intervals cover the choice of stories only.")]  # fmt: skip
    if run.param("data", "source") == "storybook":
        found.append(not_said("How the model would do on natural stories: the storybook corpus is generated from a small "
                              "grammar, whose text is easier to predict."))  # fmt: skip
    perplexity = as_number(run.get("evaluate", "perplexity"))
    if perplexity is not None:
        found.append(not_said("How the model compares with published ones: perplexity depends on the vocabulary; only bits "
                              "per byte compare across tokenizers, and only on the same text."))  # fmt: skip
        held_out = as_number(run.get("train", "held_out_loss_best"))
        if held_out is not None and abs(math.log(perplexity) - held_out) > GAP:
            found.append(not_said(f"Why held-out ({loss(held_out)}) and evaluation ({loss(math.log(perplexity))} nats a "
                                  "token) differ: they are different stories."))  # fmt: skip
    return found


RULES: tuple[Callable[[Run], list[Finding]], ...] = (
    compare_with_baselines, compare_with_floor, judge_fit, judge_unknown, compare_samples, judge_bleu, judge_beams,
    judge_heads, *COST_RULES, limits,
)  # fmt: skip


def findings(run: Run) -> list[Finding]:
    """All sentences that this run supports, in the order of the page."""
    return [finding for rule in RULES for finding in rule(run)]
