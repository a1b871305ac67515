"""A comment on each sampled text: whether it makes sense, by what this corpus allows to measure."""

import re
from typing import Any

from tinylm.evaluate.diversity import repeated_share
from tinylm.report.sources import Run
from tinylm.report.wording import number, share

_ENDS = "<eos>"  # a text that ends too early


def comments(run: Run) -> list[str]:
    """One comment for each row of samples, in its order."""
    samples = run.rows("samples")
    stories = run.tree("evaluate").samples.reference_perplexity.value
    verdicts = _verdicts(run) or [""] * len(samples)
    near = [row for row in run.rows("memorised") if row["text"] == "continuation"]
    result = []
    for row, verdict, nearest in zip(samples, verdicts, near or [{}] * len(samples)):
        repeated = repeated_share([str(row["continuation"])], 4)
        lines = [f"{share(repeated, 0)} of the 4-grams are repeated."]
        if nearest.get("nearest") is not None:
            shared = share(nearest["nearest"], 0)
            lines.append(f"The nearest training story shares {shared} of the 4-grams.")
            if not nearest["opening_seen"]:
                lines.append("No training story has this opening.")
        if verdict:
            lines.insert(0, verdict)
        elif stories and row.get("perplexity"):
            side = "less" if row["perplexity"] > stories else "more"
            numbers = f"perplexity {number(row['perplexity'])} compared with {number(stories)}"
            lines.append(f"To the model it is {side} predictable than true stories: {numbers}.")
        result.append(" ".join(lines))
    return result


def _verdicts(run: Run) -> list[str]:
    """What the generator finds in each sample; empty unless it has judged all of them."""
    samples = run.rows("samples")
    decoded = run.tree("evaluate").sense.methods.decode
    errors = [_first_error(f"{row['prompt']} {row['continuation']}", run) for row in samples]
    wrong = sum(error is not None for error in errors)
    possible = decoded.possible.value or 0.0
    if decoded.texts != len(samples) or wrong != round(len(samples) * (1 - possible)):
        return []
    verdicts = []
    for error in errors:
        if error is None:
            verdicts.append("The generator finds no error.")
        else:
            word = "the end" if error["word"] == _ENDS else f"“{error['word']}”"
            verdicts.append(f"The generator finds an error of kind “{error['kind']}” at {word}.")
    return verdicts


def _first_error(text: str, run: Run) -> dict[str, Any] | None:
    """The row of sense whose words begin the text, which the generator reads without marks."""
    bare = " ".join(re.sub(r"[^\w\s]", "", text).lower().split()) + " "
    for error in run.rows("sense"):
        before = f"{error['story']} "
        if error["word"] == _ENDS and bare == before:
            return error
        if bare.startswith(f"{before}{error['word']} "):
            return error
    return None
