"""Tables for a terminal. What is printed here changes no result, so no stage depends on this module."""

import dataclasses
from collections.abc import Sequence
from typing import Any


def _same_blocks(parts: Sequence[Any]) -> list[tuple[str, Any]]:
    """(place, part) with equal blocks merged into one entry each."""
    lines: dict[Any, list[int]] = {}
    for part in parts:
        lines.setdefault(dataclasses.replace(part, block=None), []).append(part.block or 0)
    return [
        ("" if not blocks[0] else f"block {blocks[0]}" + (f"-{blocks[-1]}" if len(blocks) > 1 else ""), part)
        for part, blocks in lines.items()
    ]


def format_description(parts: Sequence[Any]) -> str:
    """The parts as an aligned table for a terminal, equal blocks as one line with the numbers of one block."""
    rows: list[tuple[str, ...]] = []
    rows.append(("", "part", "shape", "parameters", "trained", "FLOP/token", "attention", "training"))
    for place, part in _same_blocks(parts):
        trained = ("yes" if part.trainable else "no") if part.parameters else "-"
        counts = (part.flop, part.attention_flop, part.training_flop)
        numbers = [f"{count:,}" if count else "-" for count in counts]
        rows.append((place, part.name, part.shape, f"{part.parameters:,}", trained, *numbers))
    totals = [sum(getattr(p, key) for p in parts) for key in ("parameters", "flop", "attention_flop", "training_flop")]
    size, *counts_all = (f"{total:,}" for total in totals)
    rows.append(("", "all", "", size, "", *counts_all))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    left = (0, 1, 2, 4)
    lines = [
        "  ".join(cell.ljust(w) if i in left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths)))
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)
