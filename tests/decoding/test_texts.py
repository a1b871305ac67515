import warnings

import pytest

from tinylm.base.config import InputError
from tinylm.decoding.texts import banned_ids, encode_prompt, encode_prompts, generate_text

SOS, EOS, PAD, UNK = 0, 1, 2, 3


class Letters:
    """Letters a to z are ids 5 to 30, all else <unk>; special tokens decode to nothing, but for <unk>."""

    sos_id, eos_id, pad_id, unk_id = SOS, EOS, PAD, UNK
    specials = frozenset({SOS, EOS, PAD, UNK})

    def encode(self, text: str) -> list[int]:
        return [
            ord(letter) - 92 if "a" <= letter <= "z" else UNK for letter in text if letter != " "
        ]

    def decode(self, ids) -> str:
        return "".join(
            "?" if token == UNK else chr(token + 92)
            for token in ids
            if token not in (SOS, EOS, PAD)
        )


class Bare(Letters):
    """No special token at all; "a" fills inputs too."""

    sos_id = eos_id = unk_id = None
    pad_id = 5
    specials = frozenset()


class Shared(Letters):
    """One id in every special role."""

    sos_id = eos_id = pad_id = EOS
    unk_id = None
    specials = frozenset({EOS})


def test_a_text_starts_with_sos_and_keeps_its_prompt(model, settings):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert encode_prompts(Letters(), ["", "  ", "ab"], 13, "half") == [
            [SOS],
            [SOS],
            [SOS, 5, 6],
        ]
        texts = generate_text(
            model,
            Letters(),
            ["", "ab", "once upon"],
            settings(),
            max_new_tokens=30,
            streams=[0, 1, 2],
        )
    assert [text.startswith(start) for text, start in zip(texts, ["", "ab", "onceupon"])] == [
        True
    ] * 3
    assert all(len(text) > 2 for text in texts)
    assert "?" not in set("".join(texts))


def test_the_end_is_no_part_of_the_text(model, settings):
    only_end = [word for word in range(31) if word != EOS]
    assert generate_text(
        model, Letters(), ["ab"], settings(), max_new_tokens=3, banned=only_end
    ) == ["ab"]


def test_only_ids_that_are_neither_text_nor_an_end_are_banned():
    assert banned_ids(Letters()) == [SOS, PAD, UNK]
    assert banned_ids(Bare()) == banned_ids(Shared()) == []


def test_an_empty_prompt_needs_a_token_to_start_from():
    with pytest.raises(
        InputError, match="prompt 2 is empty, and this vocabulary has no token that opens a text"
    ):
        encode_prompts(Bare(), ["a", " "], 13, "half")
    assert encode_prompt(Shared(), "", "the text") == [EOS]


def test_unknown_and_long_prompts_warn(model, settings):
    with pytest.warns(UserWarning, match="prompt 2: no word of it is known"):
        assert encode_prompts(Letters(), ["a", "\0ÄÖ"], 13, "half")[1] == [SOS, UNK, UNK, UNK]
    with pytest.warns(
        UserWarning, match="prompt 1: 21 tokens, the context holds 13; the model sees the last 9"
    ):
        generate_text(model, Letters(), ["abcdefghijklmnopqrst"], settings(), max_new_tokens=3)
