"""docs/reference/neighbours.md, from what the last run of `make neighbours` wrote."""

import json
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.support import reference

RESULTS = Path(__file__).parent / "results.json"


def is_good(line: dict[str, Any]) -> bool:
    """Whether a comparison is within its bound; one that cannot be made, or is known to differ, has none."""
    return line["bound"] is None or line["difference"] <= line["bound"]


def difference(line: dict[str, Any]) -> str:
    """Such as `3e-06 of at most 0.0002: largest difference of logits`."""
    if line["difference"] is None:
        return "not possible"
    if line["bound"] is None:
        return f"{line['difference']:.2g} {line['unit']}: see below"
    return f"{line['difference']:.2g} of at most {line['bound']:.2g}: {line['unit']}"


def page() -> str:
    """The comparisons, a table for each tool, and below it what its users need to know."""
    results = json.loads(RESULTS.read_text("utf-8"))
    parts = [
        "# What other tools do with our exports",
        reference.MARK,
        f"`make neighbours` draws {results['models']} small models with random weights, exports them, reads the exports with "
        "other tools, and compares with what tinylm computes. A difference that is more than rounding explains is an error. "
        f"These are the results of {results['date']} on {results['processor']}, with seed {results['seed']}.",
    ]
    for (tool, version), group in groupby(
        results["lines"], lambda line: (line["tool"], line["version"])
    ):
        lines = list(group)
        parts.append(f"## {tool} {version}")
        rows = ["| compared | models | difference |", "|---|---|---|"]
        rows += [
            f"| {line['compared']} | {line['models']} | {difference(line)} |" for line in lines
        ]
        parts.append("\n".join(rows))
        sentences = dict.fromkeys(line["says"] for line in lines if line["says"])
        if sentences:
            parts.append("\n".join(f"- {sentence}" for sentence in sentences))
    return "\n\n".join(parts)
