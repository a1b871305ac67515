"""Rules about what the model writes: sampled continuations, BLEU, beams."""

from tinylm.reporting.sources import Run, as_number
from tinylm.reporting.wording import Finding, count, figure, interval, loss, not_said, said, share

FEW_SAMPLES = 200  # continuations: below this BLEU-4 moves with the draw
CLOSE = 0.02  # relative: two figures nearer than this are called equal


def compare_samples(run: Run) -> list[Finding]:
    """Are sampled continuations more predictable or more repetitive than the stories?"""
    own, real = (run.get("evaluate", "samples", f"{who}_perplexity") for who in ("continuation", "reference"))
    a, b = interval(own), interval(real)
    found = []
    if a and b:
        text = f"{figure(own.get('value'))} against {figure(real.get('value'))}"
        if a[0] <= b[1] and b[0] <= a[1]:
            found.append(
                not_said(
                    "Whether the model finds its own continuations easier than the true ones: the "
                    f"intervals overlap ({text})."
                )
            )
        elif a[1] < b[0]:
            found.append(
                said(
                    "The model finds its own continuations more predictable than the true ones "
                    f"(perplexity {text}): it writes safer text than it was trained on."
                )
            )
        else:
            found.append(
                said(
                    "The model finds its own continuations less predictable than the true ones "
                    f"(perplexity {text}): sampling strays from what the model considers likely."
                )
            )
    return found + _repetition(run)


def _repetition(run: Run) -> list[Finding]:
    own = as_number(run.get("evaluate", "samples", "repeated_4grams"))
    real = as_number(run.get("evaluate", "samples", "reference_repeated_4grams"))
    if own is None or real is None:
        return []
    how = (
        "more often than"
        if own > real * (1 + CLOSE)
        else "less often than"
        if own < real * (1 - CLOSE)
        else "as often as"
    )
    return [
        said(
            f"Sampled text repeats itself {how} the stories: {share(own)} of its 4-grams occurred before in the "
            f"same text, against {share(real)}."
        )
    ]


def judge_bleu(run: Run) -> list[Finding]:
    """What BLEU can show with this many samples."""
    number = as_number(run.get("evaluate", "samples", "count"))
    ends = interval(run.get("evaluate", "samples", "bleu4"))
    if number is None:
        return []
    found = []
    if number < FEW_SAMPLES:
        spread = f", and its interval here is {figure(ends[0])} to {figure(ends[1])}" if ends else ""
        found.append(
            not_said(
                f"BLEU says little with {count(number)} continuations{spread}; read it for large differences only."
            )
        )
    found.append(
        not_said(
            "Whether the continuations are good stories: BLEU compares with the one way in which a story went "
            "on, and a different good ending scores low."
        )
    )
    return found


def judge_memorised(run: Run) -> list[Finding]:
    """Does the model copy longer runs from train than the stories' own continuations share with train?"""
    sides = ("continuations", "references")
    own, real = (run.mapping("evaluate", "memorised", key) for key in sides)
    a, b = interval(own.get("longest_run")), interval(real.get("longest_run"))
    if not a or not b:
        return []
    mine, theirs = (figure(run.get("evaluate", "memorised", key, "longest_run", "value")) for key in sides)
    text = f"{mine} words on average, against {theirs}"
    fresh, true = (as_number(run.get("evaluate", "memorised", key, "new", "4", "value")) for key in sides)
    if fresh is not None and true is not None:
        text += f"; {share(fresh)} of its 4-grams are new, against {share(true)}"
    if a[0] <= b[1] and b[0] <= a[1]:
        found = [
            not_said(
                "Whether the model copies more from train than stories share by themselves: the intervals of the "
                f"longest runs overlap ({text})."
            )
        ]
    elif a[0] > b[1]:
        found = [
            said(
                f"The model's text shares longer runs with train than the stories' own continuations do ({text}): it "
                "takes to wordings that it has seen."
            )
        ]
    else:
        found = [
            said(
                f"The model's text shares shorter runs with train than the stories' own continuations do ({text}): "
                "there is no sign of memorisation."
            )
        ]
    whole, texts = as_number(own.get("whole")), as_number(own.get("count"))
    if whole and texts:
        found.append(said(f"{count(whole)} of {count(texts)} continuations occur word for word in a training story."))
    return found


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
    figures = (
        f"{loss(probable)} against {loss(probable_base)} nats per token, repeated 4-grams {share(repeats)} against "
        f"{share(repeats_base)}"
    )
    name, other = widest.replace("beam ", "beam search with width "), "sampling" if base == "sampling" else base
    verdict = {
        (True, True): f"Text from {name} is more probable than from {other} but more repetitive",
        (True, False): f"Text from {name} is more probable than from {other} and not more repetitive",
        (False, True): f"Text from {name} is neither more probable than from {other} nor less repetitive",
        (False, False): f"Text from {name} is not more probable than from {other}, and not more repetitive",
    }[likely, repetitive]
    prompts = count(run.get("beam_bench", "prompts"))
    return [said(f"{verdict} ({figures}; {prompts} prompts, no intervals).")]


TEXT_RULES = (compare_samples, judge_memorised, judge_bleu, judge_beams)
