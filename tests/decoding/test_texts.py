import warnings

import pytest

from tests.decoding.conftest import EOS, PAD, SOS, UNK
from tinylm.base.config import InputError
from tinylm.decoding.texts import banned_ids, encode_prompts, generate_text
from tinylm.vocab.tokenizer import Tokenizer


class Letters:
    """Letters a to z are ids 5 to 30, all else <unk>; special tokens decode to nothing, but for <unk>."""

    sos_id, eos_id, pad_id, unk_id = SOS, EOS, PAD, UNK
    specials = frozenset({SOS, EOS, PAD, UNK})
    encode_prompt = Tokenizer.encode_prompt

    def encode(self, text: str) -> list[int]:
        letters = text.replace(" ", "")
        return [ord(letter) - 92 if "a" <= letter <= "z" else UNK for letter in letters]

    def decode(self, ids) -> str:
        shown = [token for token in ids if token not in (SOS, EOS, PAD)]
        return "".join("?" if token == UNK else chr(token + 92) for token in shown)


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
        ids = encode_prompts(Letters(), ["", "  ", "ab"], 13, "half")
        texts = generate_text(model, Letters(), ["", "once upon"], settings(), max_new_tokens=30)
    assert ids == [[SOS], [SOS], [SOS, 5, 6]]
    assert texts[1].startswith("onceupon")
    assert all(len(text) > 2 and "?" not in text for text in texts)


def test_the_end_is_no_part_of_the_text(model, settings):
    banned = [word for word in range(31) if word != EOS]
    texts = generate_text(model, Letters(), ["ab"], settings(), max_new_tokens=3, banned=banned)
    assert texts == ["ab"]


def test_only_ids_that_are_neither_text_nor_an_end_are_banned():
    assert banned_ids(Letters()) == [SOS, PAD, UNK]
    assert banned_ids(Bare()) == banned_ids(Shared()) == []


def test_an_empty_prompt_needs_a_token_to_start_from():
    with pytest.raises(InputError, match="prompt 2"):
        encode_prompts(Bare(), ["a", " "], 13, "half")
    assert Shared().encode_prompt("", "the text") == [EOS]


def test_a_long_prompt_warns():
    with pytest.warns(UserWarning, match=r"prompt 1 .*21 tokens.* last 9 "):
        encode_prompts(Letters(), ["abcdefghijklmnopqrst"], 13, "half")
