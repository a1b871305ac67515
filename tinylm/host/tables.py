"""Tables for a terminal. What is printed here changes no result, so no stage depends on this module."""

import dataclasses
import io
from collections.abc import Sequence
from typing import Any

WIDTH = 100  # columns


def _count(number: int) -> str:
    return f"{number:,}" if number else "-"


def _total(parts: Sequence[Any], name: str) -> str:
    return f"{sum(getattr(part, name) for part in parts):,}"


def _block_label(blocks: list[int]) -> str:
    """0 stands for parts outside the blocks."""
    if blocks == [0]:
        return ""
    if len(blocks) == 1:
        return str(blocks[0])
    return f"{blocks[0]}-{blocks[-1]}"


def _group(parts: Sequence[Any]) -> list[tuple[str, Any]]:
    """(numbers of the blocks, part): equal parts of several blocks are one entry."""
    blocks_of: dict[Any, list[int]] = {}
    for part in parts:
        without_block = dataclasses.replace(part, block=None)
        blocks_of.setdefault(without_block, []).append(part.block or 0)
    return [(_block_label(blocks), part) for part, blocks in blocks_of.items()]


def format_description(parts: Sequence[Any]) -> str:
    """A model's parts (tinylm.model.describe) as a table of at most WIDTH columns.

    Equal blocks are shown once, with the numbers of one block.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_footer=True)
    table.add_column("part", "all")
    table.add_column("blocks")
    table.add_column("shape")
    for title, name in (
        ("parameters", "parameters"),
        ("FLOP/token", "flop"),
        ("attention", "attention_flop"),
        ("training", "training_flop"),
    ):
        table.add_column(title, _total(parts, name), justify="right", no_wrap=True)
    for label, part in _group(parts):
        frozen = ", frozen" if part.parameters and not part.trainable else ""
        table.add_row(
            part.name + frozen,
            label,
            part.shape,
            f"{part.parameters:,}",
            _count(part.flop),
            _count(part.attention_flop),
            _count(part.training_flop),
        )
    text = io.StringIO()
    Console(file=text, width=WIDTH, color_system=None).print(table)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines() if line.strip())
