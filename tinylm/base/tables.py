"""Tables for a terminal."""

import dataclasses
from collections.abc import Sequence
from typing import Any

NUMBERS = {
    "parameters": "parameters",
    "FLOP/token": "flop",
    "attention": "attention_flop",
    "training": "training_flop",
}


def print_description(parts: Sequence[Any]) -> None:
    """Print a model's parts (tinylm.model.describe) as a table of at most 100 columns.

    Equal blocks are shown once, with the numbers of one block.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_footer=True)
    table.add_column("part", "all")
    table.add_column("blocks")
    table.add_column("shape")
    for title, field in NUMBERS.items():
        total = sum(getattr(part, field) for part in parts)
        table.add_column(title, f"{total:,}", justify="right", no_wrap=True)
    blocks: dict[Any, list[int]] = {}  # part without its block -> the blocks that have it
    for part in parts:
        equal = blocks.setdefault(dataclasses.replace(part, block=None), [])
        if part.block is not None:
            equal.append(part.block)
    for part, equal in blocks.items():
        name = f"{part.name}, frozen" if part.parameters and not part.trainable else part.name
        label = "-".join(map(str, dict.fromkeys([*equal[:1], *equal[-1:]])))
        numbers = [getattr(part, field) for field in NUMBERS.values()]
        cells = [f"{number:,}" if number else "-" for number in numbers]
        table.add_row(name, label, part.shape, *cells)
    Console(width=100).print(table)
