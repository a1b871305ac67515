"""A comment on each sampled text: whether it makes sense, by what this corpus allows to measure."""

import re
from collections.abc import Iterator
from typing import Any

from tinylm.evaluate.diversity import repeated_share
from tinylm.report.sources import Run
from tinylm.report.wording import number, share

_ENDS = "<eos>"  # a text that ends too early


def comments(run: Run) -> list[str]:
    """One comment for each row of samples, in its order."""
    samples = run.rows("samples")
    texts = [_bare(f"{row['prompt']} {row['continuation']}") for row in samples]
    errors = [_first_error(text, run.rows("sense")) for text in texts]
    decoded = run.tree("evaluate").sense.methods.decode
    wrong = sum(error is not None for error in errors)
    has_verdicts = decoded.texts == len(samples) and wrong == round(
        len(samples) * (1 - (decoded.possible.value or 0.0))
    )
    near = [row for row in run.rows("memorised") if row["text"] == "continuation"]
    if len(near) != len(samples):
        near = [{} for _ in samples]
    result = []
    for row, error, nearest in zip(samples, errors, near, strict=True):
        lines = [_verdict(error)] if has_verdicts else []
        lines += _measures(row, nearest)
        stories = run.tree("evaluate").samples.reference_perplexity.value
        if stories and row.get("perplexity") and not has_verdicts:
            side = "less" if row["perplexity"] > stories else "more"
            numbers = f"perplexity {number(row['perplexity'])} compared with {number(stories)}"
            lines.append(f"To the model it is {side} predictable than true stories: {numbers}.")
        result.append(" ".join(lines))
    return result


def _verdict(error: dict[str, Any] | None) -> str:
    if error is None:
        return "The generator finds no error."
    word = "the end" if error["word"] == _ENDS else f"“{error['word']}”"
    return f"The generator finds an error of kind “{error['kind']}” at {word}."


def _measures(row: dict[str, Any], nearest: dict[str, Any]) -> Iterator[str]:
    repeated = repeated_share([str(row["continuation"])], 4)
    yield f"{share(repeated, 0)} of the 4-grams are repeated."
    if nearest.get("nearest") is not None:
        yield f"The nearest training story shares {share(nearest['nearest'], 0)} of the 4-grams."
        if not nearest["opening_seen"]:
            yield "No training story has this opening."


def _bare(text: str) -> str:
    """The words as the generator reads them, each before a space."""
    return " ".join(re.sub(r"[^\w\s]", "", text).lower().split()) + " "


def _first_error(text: str, errors: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The generator's verdict on a text: the row of sense whose words begin the text."""
    for error in errors:
        if error.get("method", "decode") != "decode":
            continue
        ends = error["word"] == _ENDS
        before = f"{error['story']} "
        if text == before if ends else text.startswith(f"{before}{error['word']} "):
            return error
    return None
