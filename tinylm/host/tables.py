"""Tables for a terminal. What is printed here changes no result, so no stage depends on this module."""

import dataclasses
import textwrap
from collections.abc import Sequence
from typing import Any

WIDTH, NARROWEST = 100, 20  # columns of what is printed, and of a column of it that is wrapped


def _same_blocks(parts: Sequence[Any]) -> list[tuple[str, Any]]:
    """(place, part) with equal blocks merged into one entry each."""
    lines: dict[Any, list[int]] = {}
    for part in parts:
        lines.setdefault(dataclasses.replace(part, block=None), []).append(part.block or 0)
    return [
        (
            ""
            if not blocks[0]
            else f"block {blocks[0]}" + (f"-{blocks[-1]}" if len(blocks) > 1 else ""),
            part,
        )
        for part, blocks in lines.items()
    ]


def format_description(parts: Sequence[Any]) -> str:
    """The parts as an aligned table of at most WIDTH columns, equal blocks once, with the numbers of one block."""
    rows: list[tuple[str, ...]] = [
        ("part", "shape", "parameters", "FLOP/token", "attention", "training")
    ]
    above = ""
    for place, part in _same_blocks(parts):
        if place and place != above:
            rows.append((f"{place}, each:" if "-" in place else f"{place}:", *[""] * 5))
        above = place
        name = f"{'  ' if place else ''}{part.name}{'' if part.trainable or not part.parameters else ', frozen'}"
        counts = (part.flop, part.attention_flop, part.training_flop)
        numbers = [f"{count:,}" if count else "-" for count in counts]
        rows.append((name, part.shape, f"{part.parameters:,}", *numbers))
    totals = [
        sum(getattr(p, key) for p in parts)
        for key in ("parameters", "flop", "attention_flop", "training_flop")
    ]
    rows.append(("all", "", *(f"{total:,}" for total in totals)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    widths[1] = min(
        widths[1], max(WIDTH - sum(widths) + widths[1] - 2 * len(widths) + 2, NARROWEST)
    )
    lines = []
    for name, shape, *numbers in rows:
        first, *more = textwrap.wrap(shape, widths[1]) or [""]
        cells = [
            name.ljust(widths[0]),
            first.ljust(widths[1]),
            *map(str.rjust, numbers, widths[2:]),
        ]
        lines += ["  ".join(cells), *(f"{'':{widths[0]}}    {rest}" for rest in more)]
    return "\n".join(line.rstrip() for line in lines)
