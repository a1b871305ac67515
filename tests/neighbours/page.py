"""docs/reference/neighbours.md, from the results of the last complete run of `make neighbours`."""

import json
from pathlib import Path
from typing import Any

from tests.support import reference

RESULTS = Path(__file__).parent / "results.json"
Lines = list[dict[str, Any]]


def is_good(line: dict[str, Any]) -> bool:
    """Whether a comparison is within its bound. Refusals and known differences have none."""
    return line["bound"] is None or line["difference"] <= line["bound"]


def difference(line: dict[str, Any]) -> str:
    """Such as `3e-06 of at most 0.0002 (logits)`."""
    if line["difference"] is None:
        return "refused"
    if line["bound"] is None:
        return f"{line['difference']:.2g} {line['unit']}, as known"
    return f"{line['difference']:.2g} of at most {line['bound']:.2g} ({line['unit']})"


def page() -> str:
    """For each tool: what goes wrong without an error, what it refuses, and what was compared."""
    results = json.loads(RESULTS.read_text("utf-8"))
    parts = [
        "# Exports in other tools",
        reference.MARK,
        f"`make neighbours` exports {results['models']} small models with random weights, and compares what other tools "
        "compute from them with what tinylm computes. A difference that rounding does not explain is an error. "
        f"These results are from {results['date']} (seed {results['seed']}, {results['processor']}).",
    ]
    for (tool, version), lines in by_tool(results["lines"]):
        parts.append(f"## {tool} {version}")
        wrong = [line for line in lines if line["bound"] is None and line["difference"] is not None]
        refused = [line for line in lines if line["difference"] is None]
        same = [line for line in lines if line["bound"] is not None]
        parts += sentences("Goes wrong without an error unless you do this:", wrong)
        parts += sentences("Refused:", refused)
        parts += sentences("Works if you do this:", same)
        rows = [
            "| compared | models | largest difference | allowed | unit |",
            "|---|---|---|---|---|",
        ]
        rows += [
            f"| {line['compared']} | {line['models']} | {line['difference']:.2g} | {line['bound']:.2g} "
            f"| {line['unit']} |"
            for line in same
        ]
        parts.append("\n".join(rows))
    return "\n\n".join(parts)


def by_tool(lines: Lines) -> list[tuple[tuple[str, str], Lines]]:
    """Each (tool, version) with its lines, in the order in which the tools first occur."""
    tools: dict[tuple[str, str], Lines] = {}
    for line in lines:
        tools.setdefault((line["tool"], line["version"]), []).append(line)
    return list(tools.items())


def sentences(heading: str, lines: Lines) -> list[str]:
    """A heading and a list of the lines' sentences, each once; empty if there are none."""
    said = dict.fromkeys(line["says"] for line in lines if line["says"])
    return [heading, "\n".join(f"- {sentence}" for sentence in said)] if said else []
