"""Rules about what the model writes: sampled continuations, BLEU, beams."""

from tinylm.report.sources import Run, as_number
from tinylm.report.wording import Finding, count, figure, interval, loss, not_said, said, share

FEW_SAMPLES = 200  # continuations: below this BLEU-4 moves with the draw


def compare_samples(run: Run) -> list[Finding]:
    """Are sampled continuations more predictable or more repetitive than the stories?"""
    own, real = (
        run.get("evaluate", "samples", f"{who}_perplexity") for who in ("continuation", "reference")
    )
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
    own, real = (
        as_number(run.get("evaluate", "samples", f"{who}repeated_4grams"))
        for who in ("", "reference_")
    )
    a, b = (
        interval(run.get("evaluate", "samples", f"{who}repeated_4grams_interval"))
        for who in ("", "reference_")
    )
    if own is None or real is None or a is None or b is None:
        return []
    shares = f"{share(own)} of its 4-grams occurred before in the same text, against {share(real)}"
    if a[0] <= b[1] and b[0] <= a[1]:
        return [
            not_said(
                f"Whether sampled text repeats itself more than the stories: the intervals overlap ({shares})."
            )
        ]
    how = "more" if a[0] > b[1] else "less"
    return [said(f"Sampled text repeats itself {how} often than the stories: {shares}.")]


def judge_bleu(run: Run) -> list[Finding]:
    """What BLEU can show with this many samples."""
    number = as_number(run.get("evaluate", "samples", "count"))
    ends = interval(run.get("evaluate", "samples", "bleu4"))
    if number is None:
        return []
    found = []
    if number < FEW_SAMPLES:
        spread = (
            f", and its interval here is {figure(ends[0])} to {figure(ends[1])}" if ends else ""
        )
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
    mine, theirs = (
        figure(run.get("evaluate", "memorised", key, "longest_run", "value")) for key in sides
    )
    text = f"{mine} words on average, against {theirs}"
    fresh, true = (
        as_number(run.get("evaluate", "memorised", key, "new", "4", "value")) for key in sides
    )
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
        found.append(
            said(
                f"{count(whole)} of {count(texts)} continuations occur word for word in a training story."
            )
        )
    return found


def judge_beams(run: Run) -> list[Finding]:
    """Does a wider beam find more probable text than greedy decoding does?"""
    methods = run.table("beam_bench", "methods")
    found = []
    for name, row in methods.items():
        compared = row.get("against_greedy")
        if not name.startswith("beam ") or name == "beam 1" or not isinstance(compared, dict):
            continue
        ends, difference = interval(compared.get("difference")), compared["difference"].get("value")
        if ends is None:
            continue
        width, prompts = name.removeprefix("beam "), count(compared.get("prompts"))
        figures = (
            f"the log-probability of a text less that of greedy decoding is {loss(difference)} nats on average "
            f"({loss(ends[0])} to {loss(ends[1])}), higher for {count(compared.get('higher'))} and lower for "
            f"{count(compared.get('lower'))} of {prompts} prompts"
        )
        if ends[0] > 0:
            found.append(
                said(
                    f"Beam search with width {width} finds more probable text on average: {figures}."
                )
            )
        elif ends[1] < 0:
            found.append(
                said(
                    f"Beam search with width {width} finds less probable text on average: {figures}. What is likelier "
                    "for some words may cost more later, and a beam keeps only the likeliest beginnings."
                )
            )
        else:
            found.append(
                not_said(
                    f"Whether beam search with width {width} finds more probable text: the interval of the difference "
                    f"holds 0 ({figures})."
                )
            )
    return found


TEXT_RULES = (compare_samples, judge_memorised, judge_bleu, judge_beams)
