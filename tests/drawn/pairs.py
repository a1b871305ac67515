"""A few runs in which any two values of different keys meet; random draws would need hundreds.

A fault that needs two settings, such as a decay that is lost beside one optimizer, then shows in at least one run.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from allpairspy import AllPairs

from tests.drawn.drawing import FIELDS, ONLY_ON_A_CARD, Changes, complaints, kind_of

# Of the keys whose values cannot be enumerated: off, on, or takes another path.
VALUES: dict[str, tuple[Any, ...]] = {
    "model.layers": (1, 2), "model.head_width": (2, 4), "train.batch_size": (1, 4), "train.accumulation": (1, 3),
    "train.unknown": (0.0, 0.3), "train.weight_decay": (0.0, 0.5), "train.clip_norm": (None, 0.3),
    "train.warmup": (0.0, 0.3), "train.final_lr": (0.0, 0.4), "train.patience": (None, 2), "train.validate_every": (3, 50),
}  # fmt: skip
# Keys that depend on each other change together.
TOGETHER: tuple[tuple[Changes, ...], ...] = (
    (
        {"train.tokens": 700, "train.epochs": None, "train.keep_epochs": None},
        {"train.tokens": 700, "train.epochs": None, "train.keep_epochs": [0.02]},
        {"train.tokens": None, "train.epochs": 0.5, "train.keep_epochs": [0.1, 0.5]},
    ),
)
# With dropout no gradient is compared, and in bf16 only roughly, so a pair would meet without being checked.
FIXED: Changes = {"model.dropout": 0.0, "train.precision": "fp32"}
# Sizes, rates and seeds, of which every value takes the same path.
OF_ONE_PATH = {
    "model.heads", "model.feed_forward", "model.context", "model.norm_eps",
    "train.lr", "train.muon_lr", "train.beta1", "train.beta2", "train.seed", "train.processes",
}  # fmt: skip


def levels_of(section: str) -> Iterator[tuple[Changes, ...]]:
    """For each key of a section, what it may be to meet what others may be."""
    listed = {name for levels in TOGETHER for changes in levels for name in changes}
    for name in FIELDS:
        if name.partition(".")[0] != section or name in listed | OF_ONE_PATH | FIXED.keys():
            continue
        _, allowed = FIELDS[name]
        values = VALUES.get(name, ())
        if allowed.choices:
            values = tuple(each for each in allowed.choices if each != ONLY_ON_A_CARD.get(name))
        elif kind_of(name) is bool:
            values = (False, True)
        assert len(values) > 1, f"{name}: write its values, or that they take one path, in pairs.py"
        yield tuple({name: value} for value in values)


def training_levels() -> list[tuple[Changes, ...]]:
    """Of all keys that decide an update."""
    return [*levels_of("model"), *levels_of("train"), *TOGETHER]


def training_runs() -> list[Changes]:
    """Changes in which each legal pair of these levels occurs."""

    def is_legal(row: Sequence[Changes]) -> bool:
        return not complaints(merged(row))

    return [merged(row) for row in AllPairs(training_levels(), filter_func=is_legal)]


def merged(row: Iterable[Changes]) -> Changes:
    """All changes of a row as one mapping."""
    return FIXED | {name: value for changes in row for name, value in changes.items()}
