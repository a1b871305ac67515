import random

import pytest
from tokenizers import decoders, pre_tokenizers

from tinylm.vocab.byte_level import (
    BYTE_OF,
    CHARACTER_OF,
    ByteTokens,
    chunks,
    pre_tokenizer,
    whole_text,
)

PIECES = [
    " ", "  ", "\n", "\t", "\u00a0", "a", "it's", "Don't", "12", "3", ".", "?!", "é", "日本", "😀", "\ufffd",
    "<|endoftext|>"
]  # fmt: skip


def hostile_texts(count, longest):
    chooser = random.Random(5)
    return ["".join(chooser.choices(PIECES, k=chooser.randint(0, longest))) for _ in range(count)]


def test_the_characters_are_those_of_the_library():
    assert sorted(BYTE_OF) == sorted(pre_tokenizers.ByteLevel.alphabet())
    assert (CHARACTER_OF[ord(" ")], CHARACTER_OF[ord("\n")], CHARACTER_OF[ord("a")]) == (
        "Ġ",
        "Ċ",
        "a",
    )
    assert [BYTE_OF[CHARACTER_OF[byte]] for byte in range(256)] == list(range(256))


def test_decoding_equals_the_library_and_holds_whole_characters_only():
    tokens = ["<eos>", *(CHARACTER_OF[byte] for byte in range(256))]
    own = ByteTokens(tokens, specials=[0])
    for text in hostile_texts(200, 20):
        spelt = [byte + 1 for byte in text.encode()]
        assert own.decode([0, *spelt, 0]) == text
        cut = spelt[:-1]
        assert own.decode(cut) == decoders.ByteLevel().decode([tokens[index] for index in cut])
    assert own.decode([0xE3 + 1]) == "\ufffd"
    assert [own.word_of(index) for index in (0, ord("a") + 1, ord(" ") + 1, 0xE3 + 1)] == [
        "",
        "a",
        "",
        "",
    ]


@pytest.mark.parametrize("size", [1, 7, 50])
def test_tokens_of_the_pieces_are_those_of_the_whole(size):
    part = pre_tokenizer().pre_tokenize_str
    cuts = 0
    for text in hostile_texts(500, 60):
        pieces = list(chunks(text, size))
        assert "".join(pieces) == text
        assert [word for piece in pieces for word, _ in part(piece)] == [
            word for word, _ in part(text)
        ]
        cuts += len(pieces) - 1
    assert cuts > 30


def test_lone_surrogates_are_replacement_characters():
    assert whole_text("a\ud800b") == "a\ufffdb"
    assert whole_text("\ud83d\ude00") == "😀"
