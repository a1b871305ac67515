"""Byte pairs trained here: equal to the library `tokenizers` that reads the saved file."""

import random

import pytest
import tokenizers

from tinylm.vocab.bpe import SPECIALS, train_bpe
from tinylm.vocab.byte_level import CHARACTER_OF
from tinylm.vocab.kinds import open_tokenizer
from tinylm.vocab.settings import VocabSettings

TEXTS = [
    "The cat sat on the mat. The cat's hat!",
    "A cat, that cat and the other cat\nsat there.",
    "naïve 日本 cats 😀",
]
HOSTILE = [
    *TEXTS, "", " ", "\n\n  x", "<eos>", "a<sos>b <pad>", "<|endoftext|>", "\0\x7f\ufeff", "İSTANBUL ΟΔΟΣ",
    "zebra" * 40
]  # fmt: skip


def settings(max_size=300, min_count=1, lower_case=False):
    return VocabSettings(
        tokenizer="bpe", lower_case=lower_case, min_count=min_count, max_size=max_size
    )


def hostile_texts(count):
    chooser = random.Random(2)
    return [*HOSTILE, *(" ".join(chooser.choices(HOSTILE, k=3)) for _ in range(count))]


def test_merges_are_the_most_frequent_pairs():
    bpe = train_bpe(["xyxy xyz q xy"], settings(263))
    assert bpe.tokens[:3] == list(SPECIALS)
    assert bpe.tokens[3:259] == sorted(CHARACTER_OF.values())
    assert bpe.tokens[259:] == ["xy", "Ġxy", "Ġq", "xyxy"]  # 4 times, twice, then once each, by ids
    assert bpe.split("xyxyxy xyx") == ["xyxy", "xy", "Ġxy", "x"]


@pytest.mark.parametrize("lower_case", [True, False])
def test_ids_equal_the_library_and_nothing_is_lost(tmp_path, lower_case):
    bpe = train_bpe(TEXTS, settings(lower_case=lower_case))
    bpe.save(tmp_path / "tokenizer.json")
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    loaded = open_tokenizer(tmp_path / "tokenizer.json")
    for text in hostile_texts(200):
        ids = bpe.encode(text)
        assert ids == library.encode(text).ids == loaded.encode(text)
        assert min(ids, default=9) >= len(SPECIALS)  # no text becomes a special token
        assert bpe.decode(bpe.encode_story(text)) == bpe.normalise(text)
        if not lower_case and text.isprintable():
            assert bpe.normalise(text) == text
