"""Properties of training batches over the stores of a prepared run."""

import itertools
from collections import Counter
from pathlib import Path

import numpy as np

from tests.drawn.drawing import FIELDS, DrawnRun
from tests.drawn.properties import holds
from tinylm.base.config import InputError
from tinylm.vocab.batches import Batch, TrainBatches, scoring_batches
from tinylm.vocab.open_tokenizer import open_tokenizer
from tinylm.vocab.rows import UNSCORED
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import Tokenizer

LAYOUTS = FIELDS["train.layout"][1].choices
Row = tuple[int, ...]


def rows_of(batches: list[Batch], pad_id: int, context: int) -> list[Row]:
    """The first input and the targets of each row, which is checked to be shifted by one token."""
    rows = []
    for batch in batches:
        assert batch.tokens == int((batch.targets != UNSCORED).sum())
        for inputs, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
            length = targets.index(UNSCORED) if UNSCORED in targets else len(targets)
            assert 1 <= length <= context, f"a row of {length} tokens in a context of {context}"
            assert set(targets[length:]) <= {UNSCORED}, f"a gap in the targets {targets}"
            assert set(inputs[length:]) <= {pad_id}, f"expected {pad_id} as padding, got {inputs}"
            row = (inputs[0], *targets[:length])
            assert inputs[:length] == list(row[:-1]), f"inputs {inputs} of the targets {targets}"
            rows.append(row)
    return rows


def pairs_in(rows: list[Row]) -> Counter[Row]:
    """How often a token follows another one."""
    return Counter(itertools.chain.from_iterable(map(itertools.pairwise, rows)))


def check_rows(rows: list[Row], stories: list[Row], layout: str, context: int, ring: bool) -> None:
    """The rows of an epoch hold what the docstring of TrainBatches says.

    ring: whether the stream's first token follows its last one.
    """
    stream = tuple(itertools.chain.from_iterable(stories))
    if layout == "stories":
        expected = Counter()
        for story in stories:
            for first in range(0, len(story) - 1, context):
                expected[story[first : first + context + 1]] += 1
        assert Counter(rows) == expected, "a story is not one row, or not cut at the context"
    elif layout == "windows":
        starts = range(len(stream) - context)
        expected = Counter(stream[start : start + context + 1] for start in starts)
        assert Counter(rows) == expected, "not every window once"
    elif layout == "stream":
        end = stream[:1] if ring else ()
        assert pairs_in(rows) == pairs_in([stream + end]), "not every token of the stream once"
        short = [row for row in rows if len(row) < context + 1]
        assert len(short) <= 1, f"{len(short)} short windows"
    else:
        raise AssertionError(f"train.layout: {layout}: say in check_rows which rows it has")


@holds("prepared")
def targets_are_the_tokens_of_the_stories(drawn: DrawnRun, folder: Path) -> None:
    """Each token is a target as often per epoch as the layout says, in batches of any size, one row too."""
    params = drawn.params()
    tokenizer = open_tokenizer(folder / "data/vocab/tokenizer.json")
    rng = np.random.default_rng(drawn.number)
    sizes = {1, params["train"]["batch_size"], int(rng.integers(2, 9))}
    contexts = {params["model"]["context"], int(rng.integers(1, 20))}
    for split, layout in itertools.product(("train", "held_out"), LAYOUTS):
        store = TokenStore(folder / "data/tokens", split)
        stories = [tuple(store.story(index).tolist()) for index in range(len(store))]
        for size, context in itertools.product(sizes, contexts):
            where = f"{split}, {layout}, {size} rows of {context}"
            try:
                batches = TrainBatches(store, layout, size, context, tokenizer.pad_id, drawn.number)
                epoch = int(rng.integers(3))
                trained = [batches.batch(epoch * len(batches) + i) for i in range(len(batches))]
                scored = list(scoring_batches(store, layout, size, context, tokenizer.pad_id))
            except InputError:
                assert layout == "windows", where
                assert len(store.ids) <= context, where
                continue
            try:
                rows = rows_of(trained, tokenizer.pad_id, context)
                check_rows(rows, stories, layout, context, ring=True)
                assert batches.tokens_per_epoch == sum(len(row) - 1 for row in rows)
                count = int(rng.integers(1, 2 * len(batches) + 1))
                tokens = batches.tokens_of(count)
                fitting = [batches.count_within(tokens - less) for less in (0, 1)]
                assert fitting == [count, count - 1], f"{tokens} tokens: {fitting} of {count}"
                check_rows(
                    rows_of(scored, tokenizer.pad_id, context), stories, layout, context, ring=False
                )
            except AssertionError as error:
                raise AssertionError(f"{where}: {error}") from None


@holds("prepared")
def hidden_words_are_hidden_in_the_inputs_alone(drawn: DrawnRun, folder: Path) -> None:
    """Targets stay; an input becomes <unk> only if it is a word that occurs once in its row.

    Of these words, the share `train.unknown` is hidden, up to five standard deviations.
    """
    train = drawn.params()["train"]
    tokenizer = open_tokenizer(folder / "data/vocab/tokenizer.json")
    store = TokenStore(folder / "data/tokens", "train")
    rng = np.random.default_rng(drawn.number)
    context = drawn.params()["model"]["context"]
    for share in {train["unknown"], float(rng.uniform(0.05, 0.5))}:
        for size, layout in itertools.product((train["batch_size"], 1), LAYOUTS):
            if layout == "windows" and len(store.ids) <= context:
                continue
            shape = (store, layout, size, context, tokenizer.pad_id, drawn.number)
            open_ones = TrainBatches(*shape)
            hiding = open_ones.with_unknown(tokenizer.unk_id, share)
            where = f"{layout}, {size} rows, unknown {share}"
            hidden = words = 0
            for index in range(min(len(open_ones), 60)):
                before, after = open_ones.batch(index), hiding.batch(index)
                changed = (after.targets != before.targets).nonzero()
                assert not len(changed), (
                    f"{where}: batch {index} has other targets at {changed.tolist()[:5]}"
                )
                for row, other in zip(before.inputs.tolist(), after.inputs.tolist(), strict=True):
                    once = words_that_occur_once(row, tokenizer)
                    different = {place for place in range(len(row)) if row[place] != other[place]}
                    assert different <= once, f"{where}: batch {index} has {other} instead of {row}"
                    assert {other[place] for place in different} <= {tokenizer.unk_id}, where
                    hidden += len(different)
                    words += len(once)
            expected = words * share
            slack = 5 * (words * share * (1 - share)) ** 0.5 + 1
            assert abs(hidden - expected) <= slack, (
                f"{where}: expected {expected:.1f} hidden, got {hidden}"
            )


def words_that_occur_once(row: list[int], tokenizer: Tokenizer) -> set[int]:
    """The places of these words; none where the vocabulary has no <unk>."""
    if tokenizer.unk_id is None:
        return set()
    return {
        place
        for place, token in enumerate(row)
        if token not in tokenizer.specials and row.count(token) == 1
    }
