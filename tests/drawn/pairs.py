"""A few runs in which any two values of different keys meet; random draws would need hundreds.

A fault that needs two settings, such as a decay that is lost beside one optimizer, then shows in at least one run.
"""

import functools
import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from allpairspy import AllPairs

from tests.drawn.drawing import (
    FIELDS,
    NOT_DRAWN,
    ONLY_ON_A_CARD,
    Changes,
    Row,
    complaints,
    kind_of,
)
from tinylm.download.settings import GENERATED
from tinylm.params.params import SECTIONS

Levels = tuple[Changes, ...]  # what a key, or keys that change together, may be

# For keys with too many values to list: one value per code path. A drawn run may replace the last one by any other value that
# is not listed.
VALUES: dict[str, tuple[Any, ...]] = {
    "data.train_stories": (None, 30), "data.evaluation_stories": (None, 9), "vocab.min_count": (1, 2),
    "model.layers": (1, 2), "model.head_width": (2, 4), "model.dropout": (0.0, 0.2),
    "train.batch_size": (1, 4), "train.accumulation": (1, 3),
    "train.unknown": (0.0, 0.3), "train.weight_decay": (0.0, 0.5), "train.clip_norm": (None, 0.3),
    "train.warmup": (0.0, 0.3), "train.final_lr": (0.0, 0.4), "train.patience": (None, 2), "train.validate_every": (50, 3),
    "decode.temperature": (0.0, 0.8), "decode.top_k": (0, 5), "decode.top_p": (1.0, 0.6), "decode.min_p": (0.0, 0.1),
    "decode.eta": (0.0, 0.01), "decode.fallback_mass": (0.0, 0.3), "decode.repetition_penalty": (1.0, 1.3),
    "decode.repetition_window": (None, 3), "evaluate.prompt_tokens": (1, 3), "beam_bench.length_penalty": (0.0, 1.0),
    "accum_sweep.stories": (None, 9), "seeds.more": ([], [2]), "report.title": (None, "a title"),
    "report.author": (None, "somebody"), "report.prompts": ([], ["a dog"]), "report.sentences": ([], ["a dog ran"]),
    "report.observations": ([], ["a remark"]), "runtime.threads": ("auto", 1),
}  # fmt: skip
# Keys that depend on each other change together.
BUDGETS: Levels = (
    {"train.tokens": 700, "train.epochs": None, "train.keep_epochs": None},
    {"train.tokens": 700, "train.epochs": None, "train.keep_epochs": [0.02]},
    {"train.tokens": 700, "train.epochs": None, "train.keep_epochs": []},
    {"train.tokens": None, "train.epochs": 1.3, "train.keep_epochs": [0.1, 1.3]},
)
TOGETHER: tuple[Levels, ...] = (
    BUDGETS,
    (
        {"data.source": "local", "data.drop_first_line": False},
        {"data.source": "local", "data.drop_first_line": True},
        {"data.source": "storybook", "data.drop_first_line": False},
        {"data.source": "world", "data.drop_first_line": False},
    ),
    (
        {"data.held_out": "hash", "data.overlap": 0},
        {"data.held_out": "tokens", "data.overlap": 0},
        {"data.held_out": "tokens", "data.overlap": 8},
    ),
    (
        {"vocab.tokenizer": "words", "vocab.max_size": None},
        {"vocab.tokenizer": "words", "vocab.max_size": 30},
        {"vocab.tokenizer": "bpe", "vocab.max_size": 300},
        {"vocab.tokenizer": "gpt2", "vocab.max_size": None},
        {"vocab.tokenizer": "longest_match", "vocab.max_size": 300},
    ),
)
# Any other number may replace a number of these keys.
NUMBERS_TOGETHER = ("train.tokens", "train.epochs", "train.keep_epochs", "vocab.max_size")
OFF = (None, [])
# For the runs that compare gradients: with dropout none is compared, and in bf16 only roughly, so a pair would occur in a run
# that does not check it.
EXACT: Changes = {"model.dropout": 0.0, "train.precision": "fp32"}
# Sizes, rates and seeds, of which every value takes the same path.
OF_ONE_PATH = {
    "model.heads", "model.feed_forward", "model.context", "model.norm_eps",
    "train.lr", "train.muon_lr", "train.beta1", "train.beta2", "train.seed", "train.processes",
}  # fmt: skip


def values_to_meet(name: str) -> tuple[Any, ...]:
    """The values of a key that must meet those of others; none if all its values take one path."""
    _, allowed = FIELDS[name]
    if allowed.choices:
        return tuple(each for each in allowed.choices if each != ONLY_ON_A_CARD.get(name))
    if kind_of(name) is bool:
        return (False, True)
    return VALUES.get(name, ())


def levels_of(sections: Iterable[str]) -> Iterator[Levels]:
    """What each key of some sections, or keys that change together, may be."""
    listed = {name for levels in TOGETHER for changes in levels for name in changes}
    for section in sections:
        for levels in TOGETHER:
            if next(iter(levels[0])).startswith(f"{section}."):
                yield levels
        for name in FIELDS:
            if name.partition(".")[0] != section or name in listed | OF_ONE_PATH | NOT_DRAWN:
                continue
            values = values_to_meet(name)
            may_be_null = complaints({name: None}) == []
            is_known = len(values) > 1 or not (section in ("model", "train") or may_be_null)
            assert is_known, f"{name}: write its values, or that they take one path, in pairs.py"
            if values:
                yield tuple({name: value} for value in values)


def training_levels() -> list[Levels]:
    """Of all keys that decide an update."""
    levels = levels_of(["model", "train"])
    return [each for each in levels if not each[0].keys() <= EXACT.keys()]


def training_runs() -> list[Changes]:
    """Changes in which each legal pair of these levels occurs."""
    return [EXACT | changes for changes in covering(training_levels(), EXACT)]


def corpus_runs() -> list[Changes]:
    """Changes in which each legal pair of levels of data, vocabulary and vectors occurs."""
    return covering(list(levels_of(["data", "vocab", "embedding"])), {})


@functools.cache
def whole_levels() -> list[Levels]:
    """Of all keys."""
    return list(levels_of(SECTIONS))


@functools.cache
def rows(number: int = 0) -> list[Row]:
    """Rows that together hold each legal pair of levels; each `number` gives a different list."""
    generator = random.Random(number)
    levels = [tuple(generator.sample(each, len(each))) for each in whole_levels()]
    found = []
    for changes in covering(levels, {}):
        others = {
            name: values[:-1] for name, values in VALUES.items() if changes.get(name) == values[-1]
        }
        others |= {name: OFF for name in NUMBERS_TOGETHER if changes[name] not in OFF}
        found.append(Row(changes, others))
    return found


def covering(levels: Sequence[Levels], further: Changes) -> list[Changes]:
    """Changes in which any two levels occur that are legal together, besides further changes."""

    def is_allowed(row: Sequence[Changes]) -> bool:
        return may_run(further | merged(row))

    runs = [merged(row) for row in AllPairs(levels, filter_func=is_allowed)]
    # AllPairs judges the first levels of a row without its last ones, so it takes some rows for illegal.
    for one, other in itertools.combinations(levels, 2):
        for first, second in itertools.product(one, other):
            both = merged([first, second])
            if not any(both.items() <= run.items() for run in runs):
                legal = [run | both for run in runs if may_run(further | run | both)]
                runs += legal[:1]
    return runs


def may_run(changes: Changes) -> bool:
    """Whether a run with these changes is legal, and does not generate 20,000 stories, the default of null."""
    is_long = changes.get("data.source") in GENERATED and None in (
        changes.get("data.train_stories", 0),
        changes.get("data.evaluation_stories", 0),
    )
    return not is_long and not complaints(changes)


def merged(row: Iterable[Changes]) -> Changes:
    """All changes of a row as one mapping."""
    return {name: value for changes in row for name, value in changes.items()}
