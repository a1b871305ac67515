import itertools
import math

import numpy as np
import pytest

from tinylm.download.cleaning import clean_text
from tinylm.evaluate.raw_text import describer, restore, shape_of, shaped
from tinylm.evaluate.side_model import BackOff, SideModel, dropped_nats
from tinylm.vocab.settings import PUNCTUATIONS, VocabSettings
from tinylm.vocab.tokenizer import make_tokenizer
from tinylm.vocab.words import Splitter

TRAIN = [
    'Mum said, "Come here!" Tom\'s red-haired dog ran.\n\nIt was happy.',
    "The dog ran home. The cat didn't: it slept ...",
    "“Oh no,” said Élan – a café owner, 3 years old.",
]
ODD = [
    "",
    " - ",
    "...",
    "McDONALD's O'Neill co-op-er-ate",
    "İstanbul ß STRASSE ſ x\u0301y",
    "<eos> <unk>",
    "a" * 130 + "-B" + "c" * 101,
    "one\n\n\n two ! ? “ ” ' '' rock'n'roll",
    "e'\u0301 non-\u0338ascii =x C U 1'",
]


@pytest.mark.parametrize("lower_case", [True, False])
@pytest.mark.parametrize("punctuation", PUNCTUATIONS)
def test_every_byte_comes_back_from_words_shapes_and_gaps(lower_case, punctuation):
    split = Splitter(lower_case, punctuation)
    describe = describer(split)
    generator = np.random.default_rng(5)
    characters = list("aB'\"-. \n,=1\u0301\u2019ßİ<>e")
    drawn = ["".join(generator.choice(characters, 12)) for _ in range(300)]
    for text in map(clean_text, TRAIN + ODD + drawn, itertools.repeat(False)):
        found = describe(text)
        assert found.words == split(text), text
        assert restore(found) == text


@pytest.mark.parametrize(
    ("word", "written", "shape"),
    [
        ("dog", "dog", ""),
        ("dog", "Dog", "C"),
        ("dog", "DOG", "U"),
        ("its", "It's", "C1'"),
        ("redhaired", "red-haired", "6-"),
        ("dog", "dOg", "=dOg"),
        ("dog", "cat", "=cat"),
    ],
)
def test_shapes_are_shared_by_words_that_are_written_alike(word, written, shape):
    assert shape_of(word, written) == shape
    assert shaped(word, shape) == written


def test_all_raw_texts_of_the_same_words_have_at_most_probability_one():
    """Every case and every gap of up to three characters of an alphabet: exhaustive, and most of the mass is there."""
    texts = ["A b.", "a b. ", "A, b", "a b", "A b!"]
    model = SideModel(texts, Splitter(True, "drop"))
    gaps = ["".join(gap) for length in range(4) for gap in itertools.product(" .,!", repeat=length)]
    mass = {}
    for case in itertools.product("aA", "bB"):
        for first, between, last in itertools.product(
            ("", "."), (gap for gap in gaps if " " in gap), gaps
        ):
            text = f"{first}{case[0]}{between}{case[1]}{last}"
            mass[text] = math.exp(-model.nats(text))
    assert 0.75 < sum(mass.values()) <= 1
    assert sum(mass[text] for text in texts) > 0.3  # what was seen is likely


def test_probabilities_after_each_context_sum_to_one():
    generator = np.random.default_rng(1)
    symbols = generator.integers(1, 6, 400)
    contexts = [np.zeros(400, dtype=np.int64), symbols // 2, generator.integers(0, 9, 400)]
    model = BackOff(symbols, contexts)
    asked = np.arange(6)  # 0: never seen
    for coarse, fine in [(0, 0), (1, 7), (2, 3), (40, 90)]:
        given = [np.full(6, value) for value in (0, coarse, fine)]
        assert np.exp(
            model.log_probs(asked, given, np.log(np.full(6, 1 / 6)))
        ).sum() == pytest.approx(1)
    # by hand, for one symbol: the formula of the docstring
    p = 1 / 6
    for context, own in zip(contexts, (0, 1, 7), strict=True):
        here = symbols[context == own]
        kinds = len(set(here.tolist()))
        p = ((here == 2).sum() + kinds * p) / (len(here) + kinds)
    given = [np.array([value]) for value in (0, 1, 7)]
    assert math.exp(model.log_probs(np.array([2]), given, np.log([1 / 6]))[0]) == pytest.approx(p)


def test_what_was_never_seen_has_a_finite_price_and_what_was_seen_is_cheaper():
    model = SideModel(TRAIN * 5, Splitter(True, "drop"))
    seen, odd = (
        model.nats(TRAIN[1]),
        [model.nats(text) for text in [*ODD, "zorb " * 300, "!" * 900]],
    )
    assert all(0 < price < math.inf for price in odd)
    assert seen < model.nats(TRAIN[1].upper()) / 3
    assert SideModel([], Splitter(True, "drop")).nats(TRAIN[0]) < math.inf


@pytest.mark.parametrize(
    ("kind", "settings", "price"),
    [
        ("bpe", {"lower_case": False, "max_size": 270}, 0),
        ("bpe", {"lower_case": True, "max_size": 270}, None),
        ("longest_match", {"lower_case": False, "max_size": 80}, None),
        ("words", {}, 1),
    ],
)
def test_what_a_tokenizer_drops_is_paid_for_or_refused(kind, settings, price):
    tokenizer, _ = make_tokenizer(VocabSettings(tokenizer=kind, **settings), lambda: TRAIN)
    found = dropped_nats(tokenizer, iter(TRAIN), TRAIN)
    assert (found is None) == (price is None)
    if price is not None:
        assert found.shape == (3,)
        assert (found > 0).tolist() == [bool(price)] * 3
