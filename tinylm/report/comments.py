"""A comment on each sampled text: sense, repetition and copies, as far as they were measured."""

from typing import Any

from tinylm.evaluate.diversity import repeated_share
from tinylm.report.sources import ReportData
from tinylm.report.wording import share


def comments(run: ReportData) -> list[str]:
    """One comment for each row of samples, in its order."""
    samples = run.rows("samples")
    errors = {error.get("sample"): error for error in run.rows("sense")}
    decoded = run.tree("evaluate").sense.methods.decode
    is_judged = decoded.texts == len(samples) and len(errors) == sum(decoded.kinds.values())
    near = [row for row in run.rows("memorised") if row["text"] == "continuation"]
    result = []
    for index, (row, nearest) in enumerate(zip(samples, near or [{}] * len(samples))):
        lines = []
        if is_judged:
            lines.append(_verdict(errors.get(index)))
        repeated = repeated_share([str(row["continuation"])], 4)
        lines.append(f"{share(repeated, 0)} of the 4-grams are repeated.")
        if nearest.get("nearest") is not None:
            shared = share(nearest["nearest"], 0)
            lines.append(f"The nearest training story shares {shared} of the 4-grams.")
            if not nearest["opening_seen"]:
                lines.append("No training story has this opening.")
        result.append(" ".join(lines))
    return result


def _verdict(error: dict[str, Any] | None) -> str:
    """What the generator finds in a text. error: its row of sense."""
    if error is None:
        return "The generator finds no error."
    word = "the end" if error["word"] == "<eos>" else f"“{error['word']}”"
    return f"The generator finds an error of kind “{error['kind']}” at {word}."
