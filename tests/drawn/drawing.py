"""Runs that hypothesis draws: settings from what each settings class declares, and a corpus.

A key that is added to a settings class is drawn without being named here. What is named here is what a drawn run may cost
(`MOST`), what tinylm accepts of most corpora (`USUAL`), and the keys whose values are files.
"""

import copy
import dataclasses
import itertools
import math
import types
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from tests.drawn import corpora
from tests.drawn.corpora import Files
from tests.support.stages import small_params
from tinylm.base.config import Allowed, InputError, read_section
from tinylm.params.params import SECTIONS, params_from

Changes = dict[str, Any]  # "section.key" -> value

# The run that a drawn one differs from: as small as it can be, with every part.
TINY: dict[str, dict[str, Any]] = small_params()
for section, values in {
    "data": {"held_out_share": 0.2, "train_stories": None, "evaluation_stories": 9},
    "embedding": {"source": "random", "width": 6},
    "model": {"layers": 1, "heads": 2, "feed_forward": 7, "context": 16},
    "train": {"tokens": 600, "batch_size": 3, "validate_every": 4},
    "evaluate": {"stories": 2, "new_tokens": 4},
    "beam_bench": {"widths": [2], "prompts": 2, "new_tokens": 4},
    "kv_bench": {"batch": 2, "lengths": [3]},
    "accum_sweep": {"settings": [1, 2], "batch_size": 2, "tokens": 300},
    "ckpt_bench": {"updates": 2, "batch_size": 2},
    "seeds": {"more": []},
}.items():
    assert set(values) <= set(TINY[section])
    TINY[section] |= values

# What costs time or memory stays below these; everything else reaches the ends of its range.
MOST: dict[str, float] = {
    "data.train_stories": 60, "embedding.width": 14, "model.layers": 3, "model.heads": 4, "model.head_width": 9,
    "model.feed_forward": 20, "model.context": 40, "train.batch_size": 6, "train.accumulation": 3, "train.processes": 1,
    "train.tokens": 1500, "train.epochs": 2.0, "evaluate.stories": 60, "evaluate.new_tokens": 40,
    "beam_bench.widths": 5, "beam_bench.prompts": 9, "beam_bench.new_tokens": 40, "kv_bench.batch": 6,
    "kv_bench.lengths": 40, "accum_sweep.settings": 4, "accum_sweep.batch_size": 4, "accum_sweep.tokens": 800,
    "ckpt_bench.updates": 3, "ckpt_bench.batch_size": 4, "runtime.threads": 2, "vocab.max_size": 400,
    "vocab.min_count": 3,
}  # fmt: skip
# Where most values lie of keys that tinylm refuses elsewhere, once it knows the stories or the tokens.
USUAL: dict[str, tuple[float, float]] = {
    "data.overlap": (0, 20), "data.held_out_share": (0.1, 0.4), "train.tokens": (300, 1500), "train.keep_epochs": (0.05, 0.3),
    "accum_sweep.tokens": (400, 800), "kv_bench.batch": (1, 2), "data.evaluation_stories": (4, 20),
    "evaluate.prompt_tokens": (1, 6),
}  # fmt: skip
# (key, other key): sometimes the key gets the other's value, where its range or the run ends.
ENDED_BY = (
    ("train.keep_epochs", "train.epochs"),
    ("kv_bench.lengths", "model.context"),
    ("accum_sweep.tokens", "train.tokens"),
)
# Values are files, or need a network or a card; those with files are drawn with the corpus.
NOT_DRAWN = {"data.source", "data.path", "data.hub", "data.column", "vocab.path", "embedding.path"}
NOT_DRAWN |= {"embedding.hub", "report.hub_path", "runtime.snapshot_every_s"}
# Legal on a card only, which is not drawn.
ONLY_ON_A_CARD = {"runtime.device": "cuda", "train.compile": "true"}
# (key, value, the files that it needs)
NEED_FILES = (
    ("vocab.tokenizer", "gpt2", "vocabulary"),
    ("embedding.source", "file", "vectors"),
)
SPAN = 12  # above the lowest value, for most whole numbers
HUGE = (1 << 31, 1 << 32, 1 << 63)  # for keys without an upper end


@dataclass(frozen=True)
class DrawnRun:
    """A run that can be planted in a folder, and written as YAML.

    changes: the keys that differ from TINY. files: the user's own files. number: decides what a property draws itself, such
    as where a run is cut.
    """

    changes: Changes = field(default_factory=dict)
    files: Files = field(default_factory=Files)
    number: int = 0

    def params(self) -> dict[str, dict[str, Any]]:
        """params.yaml as parsed."""
        return with_changes(self.changes)


def with_changes(changes: Changes) -> dict[str, dict[str, Any]]:
    """TINY with some keys changed."""
    params = copy.deepcopy(TINY)
    for name, value in changes.items():
        section, _, key = name.partition(".")
        assert key in params[section], name
        params[section][key] = copy.deepcopy(value)
    return params


def is_legal(changes: Changes) -> bool:
    """Whether `params_from` accepts TINY with these changes."""
    return not complaints(changes)


def complaints(changes: Changes) -> list[str]:
    """The keys that `params_from` names in its errors, in order."""
    try:
        params_from(with_changes(changes))
    except InputError as error:
        lines = [line.removeprefix("params.yaml: ") for line in str(error).splitlines()]
        return [line.split(" ")[0].rstrip(":") for line in lines]
    return []


def fields_of(section: str) -> Iterator[tuple[str, Any, Allowed]]:
    """(section.key, its type, what it allows) of each field of a settings class."""
    settings = SECTIONS[section]
    kinds = typing.get_type_hints(settings)
    for key, declared in settings.__dataclass_fields__.items():
        yield f"{section}.{key}", kinds[key], declared.metadata.get("allowed", Allowed())


FIELDS = {
    name: (kind, allowed) for section in SECTIONS for name, kind, allowed in fields_of(section)
}


def kind_of(name: str) -> Any:
    """The type of a key where it is not null."""
    kind, _ = FIELDS[name]
    return typing.get_args(kind)[0] if isinstance(kind, types.UnionType) else kind


def same(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The identity, for flatmap: draws from a strategy that was itself drawn, so that repeats act as weights."""
    return strategy


def whole_numbers(allowed: Allowed, most: float) -> st.SearchStrategy[int]:
    """Small ones, and the ends of the range."""
    low = 0 if allowed.low == -math.inf else int(allowed.low)
    high = min(allowed.high, most)
    near = st.integers(low, int(min(low + SPAN, high)))
    if high == math.inf:
        return st.sampled_from([near, near, st.just(low), st.sampled_from(HUGE)]).flatmap(same)
    whole, ends = st.integers(low, int(high)), st.sampled_from([low, int(high)])
    return st.sampled_from([near, whole, ends]).flatmap(same)


def numbers(allowed: Allowed, most: float) -> st.SearchStrategy[float]:
    """Of three digits, from the whole range and between 0 and 1, and both ends."""
    high = min(allowed.high, most, 1e9)
    low = max(allowed.low, allowed.above)
    low = 0.0 if low == -math.inf else low
    within = (
        st.floats(low, min(high, low + 1.0)) | st.floats(low, high) | st.sampled_from([low, high])
    )
    rounded = within.map(lambda value: float(f"{value:.3g}"))
    return rounded.filter(lambda value: allowed.holds(value) and value <= most)


def texts() -> st.SearchStrategy[str]:
    """Texts that a user types, for titles and prompts."""
    return st.lists(corpora.words(), min_size=1, max_size=6).map(" ".join)


def values_of(name: str) -> st.SearchStrategy[Any]:
    """What a key may hold, by its declaration alone."""
    declared, allowed = FIELDS[name]
    most = MOST.get(name, math.inf)
    is_optional = isinstance(declared, types.UnionType)
    kind = kind_of(name)
    values = _plain(kind, allowed, most)
    if name in USUAL:
        low, high = USUAL[name]
        usual = _plain(kind, dataclasses.replace(allowed, low=low, high=high), high)
        values = st.sampled_from([usual, usual, usual, values]).flatmap(same)
    if is_optional:
        return st.none() | values
    return values.filter(lambda value: value != ONLY_ON_A_CARD.get(name, Ellipsis))


def _plain(kind: Any, allowed: Allowed, most: float) -> st.SearchStrategy[Any]:
    if typing.get_origin(kind) is tuple:
        element = _plain(typing.get_args(kind)[0], allowed, most)
        is_set = bool(allowed.length)
        return st.lists(element, min_size=allowed.length, max_size=3, unique=is_set)
    if allowed.choices:
        return st.sampled_from(allowed.choices)
    if kind is bool:
        return st.booleans()
    if kind is int:
        numbers_of_kind = whole_numbers(allowed, most)
        return numbers_of_kind | st.just("auto") if allowed.auto else numbers_of_kind
    if kind is float:
        return numbers(allowed, most)
    return texts()


def reads(section: str, changes: Changes) -> bool:
    """Whether a settings class accepts its section with these changes."""
    try:
        read_section(with_changes(changes), section, SECTIONS[section])
    except InputError:
        return False
    return True


@dataclass(frozen=True)
class Row:
    """What a drawn run must hold, so that two values meet in it (tests/drawn/pairs.py).

    changes: legal settings. others: keys of `changes` that may instead take any value except these.
    """

    # hypothesis prints what it draws from, and rows are long
    changes: Changes = field(default_factory=dict, repr=False)
    others: dict[str, tuple[Any, ...]] = field(default_factory=dict, repr=False)

    def of(self, sections: tuple[str, ...]) -> "Row":
        """What it says of some sections."""
        changes, others = (
            {name: value for name, value in each.items() if name.partition(".")[0] in sections}
            for each in (self.changes, self.others)
        )
        return Row(changes, others)


@st.composite
def some_row(draw: st.DrawFn, rows: Sequence[Row]) -> Row:
    """One of the rows. A fourth of all draws has none, so that all keys are independent there."""
    return draw(st.sampled_from(rows)) if rows and draw(st.integers(0, 3)) else Row()


@st.composite
def settings_changes(
    draw: st.DrawFn, sections: tuple[str, ...] = tuple(SECTIONS), row: Row | None = None
) -> Changes:
    """Changes of some keys of these sections, legal in the eyes of `params_from`.

    A value that is refused is left out; the others stay.
    """
    row = (row or Row()).of(sections)
    changes = dict(row.changes)
    for section in sections:
        of_section: Changes = {}
        for name in FIELDS:
            is_fixed = name in row.changes and name not in row.others
            if name.partition(".")[0] != section or name in NOT_DRAWN or is_fixed:
                continue
            if name in row.others or draw(st.booleans()):
                value = draw(values_of(name))
                if value not in row.others.get(name, ()):
                    of_section[name] = value
        changes = with_legal(section, changes, of_section)
    changes = repaired(changes, row.changes)
    for name, end in ENDED_BY:
        is_fixed = name in row.changes and name not in row.others
        is_free = name.partition(".")[0] in sections and not is_fixed
        if is_free and draw(st.integers(0, 3)) == 3:
            changes = at_its_end(changes, name, end)
    return changes


def with_legal(section: str, changes: Changes, further: Changes) -> Changes:
    """The changes with all further ones that the section accepts, one by one or, since some need each other, two at once."""
    left = {}
    for name, value in further.items():
        if reads(section, changes | {name: value}):
            changes = changes | {name: value}
        else:
            left[name] = value
    for one, other in itertools.combinations(left, 2):
        both = {one: left[one], other: left[other]}
        if reads(section, changes | both):
            changes = changes | both
    return changes


def at_its_end(changes: Changes, name: str, end: str) -> Changes:
    """The changes with `name` set to the value of `end`, or with that value added to its list, if that is legal."""
    params = with_changes(changes)
    section, _, key = name.partition(".")
    value, last = params[section][key], params[end.partition(".")[0]][end.partition(".")[2]]
    if last is None:
        return changes
    is_list = typing.get_origin(kind_of(name)) is tuple
    edited = changes | {name: [*(value or []), last] if is_list else last}
    return edited if is_legal(edited) else changes


def repaired(changes: Changes, kept: Changes) -> Changes:
    """Leave out what `params_from` refuses: first the keys it names, then their whole sections.

    Keys in `kept` get the values there before they go, too.
    """
    for spares, names_sections in ((True, False), (True, True), (False, False), (False, True)):
        for _ in range(len(FIELDS)):
            refused = complaints(changes)
            if not refused:
                return changes
            sections = {name.partition(".")[0] for name in refused}
            left = {}
            for name, value in changes.items():
                is_named = name.partition(".")[0] in sections if names_sections else name in refused
                if not is_named:
                    left[name] = value
                elif spares and name in kept:
                    left[name] = kept[name]
            if left == changes:
                break
            changes = left
    assume(not complaints(changes))
    return changes


def affordable(changes: Changes) -> Changes:
    """With less training and validation in layout windows.

    There an epoch, and a validation, reads each token as often as the context is long, and a validation takes a few
    rows at once if the batch has few. A tiny number of epochs may be rounded to 0, which is not legal; `repaired` removes it.
    """
    if changes.get("train.layout") != "windows":
        return changes
    params = with_changes(changes)
    context, train = params["model"]["context"], params["train"]
    fewer = context * max(1, 8 // train["batch_size"])
    cheaper: Changes = {"train.validate_every": min(fewer * train["validate_every"], 1000)}
    if changes.get("train.epochs"):
        for name in ("train.epochs", "train.keep_epochs"):
            cheaper[name] = shorter(changes.get(name), context)
    return changes | cheaper


def shorter(epochs: Any, times: int) -> Any:
    """Numbers of epochs, divided; of three digits."""
    if isinstance(epochs, list):
        return [shorter(each, times) for each in epochs]
    return epochs and float(f"{epochs / times:.3g}")


@st.composite
def runs(draw: st.DrawFn, rows: Sequence[Row] = ()) -> DrawnRun:
    """A legal run: settings, a corpus, vocabulary and vectors."""
    row = draw(some_row(rows))
    files, of_files = draw(corpora.files(row.changes))
    changes = draw(settings_changes(row=row))
    for name, value, needed in NEED_FILES:
        if changes.get(name) == value and not getattr(files, needed):
            del changes[name]
    changes = affordable(changes | of_files)
    kept = {name: changes[name] for name in row.changes | of_files if name in changes}
    return DrawnRun(repaired(changes, kept), files, draw(st.integers(0, 999)))


@st.composite
def corpora_alone(draw: st.DrawFn, changes: Changes) -> DrawnRun:
    """A run with these changes and files that fit them, for properties of what comes before training."""
    files, of_files = draw(corpora.files(changes))
    fitting = changes | of_files
    for name, value, needed in NEED_FILES:
        if fitting.get(name) == value and not getattr(files, needed):
            del fitting[name]
    return DrawnRun(repaired(fitting, fitting), files, draw(st.integers(0, 999)))


@st.composite
def settings_alone(draw: st.DrawFn, rows: Sequence[Row] = ()) -> DrawnRun:
    """A run whose corpus does not matter, for properties of models and training."""
    sections = ("vocab", "embedding", "model", "train", "decode", "cache")
    changes = affordable(draw(settings_changes(sections, draw(some_row(rows)))))
    return DrawnRun(repaired(changes, {}), Files(), draw(st.integers(0, 999)))
