"""Runs in which every two values of different keys meet: few runs, where drawn ones would need hundreds.

A fault that needs two settings, such as a decay that is lost beside one optimizer, shows in one of them for certain.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from allpairspy import AllPairs

from tests.drawn.drawing import FIELDS, ONLY_ON_A_CARD, Changes, complaints, kind_of

# What each key may be, where a key has no few values, or where keys depend on each other.
LEVELS: dict[str, tuple[Changes, ...]] = {
    "the budget": (
        {"train.tokens": 700},
        {"train.tokens": 700, "train.keep_epochs": [0.02]},
        {"train.tokens": None, "train.epochs": 0.5, "train.keep_epochs": [0.1, 0.5]},
    )
}
# Off, on, and what takes another way through the code.
VALUES: dict[str, tuple[Any, ...]] = {
    "model.layers": (1, 2), "model.head_width": (2, 4), "model.dropout": (0.0, 0.2),
    "train.batch_size": (1, 4), "train.accumulation": (1, 3), "train.unknown": (0.0, 0.3),
    "train.weight_decay": (0.0, 0.5), "train.clip_norm": (None, 0.3), "train.warmup": (0.0, 0.3),
    "train.final_lr": (0.0, 0.4), "train.patience": (None, 2), "train.validate_every": (3, 50),
}  # fmt: skip


def levels_of(name: str) -> tuple[Changes, ...]:
    """What a key may be, to meet what others may be; nothing if it has no few values."""
    _, allowed = FIELDS[name]
    values = VALUES.get(name, ())
    if allowed.choices:
        values = tuple(each for each in allowed.choices if each != ONLY_ON_A_CARD.get(name))
    elif kind_of(name) is bool:
        values = (False, True)
    return tuple({name: value} for value in values)


def runs_with_every_pair(sections: Sequence[str]) -> Iterator[Changes]:
    """Changes in which each legal pair of values of two keys of these sections occurs."""
    keys = [name for name in FIELDS if name.partition(".")[0] in sections]
    levels = [found for found in map(levels_of, keys) if len(found) > 1]
    levels += LEVELS.values()
    for row in AllPairs(levels, filter_func=lambda row: not complaints(merged(row))):
        yield merged(row)


def merged(row: Iterable[Changes]) -> Changes:
    """All changes of a row as one mapping."""
    return {name: value for changes in row for name, value in changes.items()}
