"""How the benches hand over their figures: records without holes, long CSV files."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tinylm.base.files import atomic_write
from tinylm.host.command import CommandFailed


def split_failures(bench: str, results: Iterable[dict[str, Any]]) -> tuple[list[dict], list[dict[str, str]]]:
    """(results that were measured, {"setting", "figure", "reason"} of those that carry "error").

    Raises CommandFailed where nothing was measured.
    """
    results = list(results)
    errors = {result["setting"]: result["error"] for result in results if "error" in result}
    failed = [{"setting": setting, "figure": "all", "reason": error} for setting, error in errors.items()]
    if results and len(failed) == len(results):
        raise CommandFailed(f"{bench}: nothing could be measured; {failed[0]['setting']}: {failed[0]['reason']}")
    return [result for result in results if "error" not in result], failed


def records(
    results: Iterable[dict[str, Any]], keys: Sequence[str], figures: Sequence[str]
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """(each result's keys and figures, to six digits, {"setting", "figure", "reason"} of each figure that is None)."""
    rows: list[dict[str, Any]] = []
    missing: list[dict[str, str]] = []
    for result in results:
        row = {key: result[key] for key in keys}
        for figure in figures:
            if result[figure] is None:
                reason = "the allocator recorded nothing"
                missing.append({"setting": result["setting"], "figure": figure, "reason": reason})
            else:
                row[figure] = float(f"{result[figure]:.6g}")
        rows.append(row)
    return rows, missing


def write_csv(path: str | Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table, floats to six digits."""
    with atomic_write(path) as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in rows)
