import random

import pytest
from tokenizers import decoders, pre_tokenizers

from tinylm.base.config import InputError
from tinylm.vocab.byte_level import BYTE_OF, CHARACTER_OF, ByteTokens, checked

PIECES = [
    " ", "  ", "\n", "\t", "\u00a0", "a", "it's", "Don't", "12", "3", ".", "?!", "é", "日本", "😀", "\ufffd",
    "<|endoftext|>"
]  # fmt: skip


def hostile_texts(count, longest):
    chooser = random.Random(5)
    return ["".join(chooser.choices(PIECES, k=chooser.randint(0, longest))) for _ in range(count)]


def test_the_characters_are_those_of_the_library():
    assert sorted(BYTE_OF) == sorted(pre_tokenizers.ByteLevel.alphabet())
    assert (CHARACTER_OF[ord(" ")], CHARACTER_OF[ord("\n")]) == ("Ġ", "Ċ")
    assert [BYTE_OF[CHARACTER_OF[byte]] for byte in range(256)] == list(range(256))


def test_decoding_equals_the_library_even_within_a_character():
    tokens = ["<eos>", *(CHARACTER_OF[byte] for byte in range(256))]
    byte_tokens = ByteTokens(tokens, specials=[0])
    for text in hostile_texts(200, 20):
        ids = [byte + 1 for byte in text.encode()]
        assert byte_tokens.decode([0, *ids, 0]) == text
        shown = [tokens[index] for index in ids[:-1]]
        assert byte_tokens.decode(ids[:-1]) == decoders.ByteLevel().decode(shown)
    words = [byte_tokens.word_of(index) for index in (0, ord("a") + 1, ord(" ") + 1, 0xE3 + 1)]
    assert words == ["", "a", "", ""]
    whole = ByteTokens(["ĠâĢľLook", "å°ıçĮ«", "âĢ", "Ċ"], specials=[])
    shown = list(map(whole.shown, range(4)))
    assert shown == ["Ġ“Look", "小猫", "âĢ", "Ċ"]


def test_a_word_too_long_to_merge_is_named_with_its_story():
    for word in ("a" * 40_000, " " * 40_000):
        with pytest.raises(InputError, match=r"a story with.*words of at most"):
            checked("a story with " + word)
    assert checked("word " * 20_000) == "word " * 20_000
