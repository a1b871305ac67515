"""The table of head tendencies (data/evaluate/heads.csv): its columns, and where a figure is highest."""

import dataclasses

import numpy as np

from tinylm.reporting.sources import Run, as_number

NAMES = {  # column: (words, whether it is a weight between 0 and 1)
    "previous": ("previous token", True),
    "first": ("first token", True),
    "self": ("token itself", True),
    "same_word": ("same word earlier", True),
    "boundary": ("<sos> and <eos>", True),
    "entropy_nats": ("entropy (nats)", False),
    "distance_tokens": ("distance (tokens)", False),
}


@dataclasses.dataclass(frozen=True)
class Tendency:
    """One figure of every head: values (layers, heads), NaN where absent, and its mean under even attention."""

    words: str
    is_weight: bool
    values: np.ndarray
    even: float | None

    def highest(self) -> tuple[int, int, float]:
        """Layer, head (from 1) and value of the head with the highest value."""
        layer, head = np.unravel_index(np.nanargmax(self.values), self.values.shape)
        return int(layer) + 1, int(head) + 1, float(self.values[layer, head])


def tendencies(run: Run) -> dict[str, Tendency]:
    """Each figure of the table that has a value, by column."""
    rows = [
        (int(layer), int(head), row)
        for row in run.rows("heads")
        if (layer := as_number(row.get("layer"))) and (head := as_number(row.get("head")))
    ]
    found = {}
    for column, (words, is_weight) in NAMES.items():
        if not any(as_number(row.get(column)) is not None for _, _, row in rows):
            continue
        values = np.full((max(layer for layer, _, _ in rows), max(head for _, head, _ in rows)), np.nan)
        for layer, head, row in rows:
            number = as_number(row.get(column))
            values[layer - 1, head - 1] = np.nan if number is None else number
        found[column] = Tendency(words, is_weight, values, as_number(rows[0][2].get(f"{column}_even")))
    return found
