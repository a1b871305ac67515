import warnings

import pytest

from tinylm.decoding.texts import encode_prompts, generate_text, unspeakable

SOS, EOS, PAD, UNK = 0, 1, 2, 3


class Letters:
    """Letters a to z are ids 5 to 30, all else <unk>; special tokens decode to nothing."""

    sos_id, eos_id, pad_id, unk_id = SOS, EOS, PAD, UNK

    def encode(self, text: str) -> list[int]:
        return [ord(letter) - 92 if "a" <= letter <= "z" else UNK for letter in text if letter != " "]

    def decode(self, ids) -> str:
        return "".join({EOS: "!", UNK: "?"}.get(token) or chr(token + 92) for token in ids)


def test_a_text_starts_with_sos_and_keeps_its_prompt(model, settings):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert encode_prompts(Letters(), ["", "  ", "ab"], 13, "half") == [[SOS], [SOS], [SOS, 5, 6]]
        texts = generate_text(model, Letters(), ["", "ab", "once upon"], settings(), 30, streams=[0, 1, 2])
    assert [text.startswith(start) for text, start in zip(texts, ["", "ab", "onceupon"])] == [True] * 3
    assert all(len(text) > 2 for text in texts)
    assert not set("!?") & set("".join(texts))  # neither <eos> nor <unk>


def test_the_end_is_no_part_of_the_text(model, settings):
    only_end = [word for word in range(31) if word != EOS]
    assert generate_text(model, Letters(), ["ab"], settings(), 3, banned=only_end) == ["ab"]
    assert unspeakable(Letters()) == [SOS, PAD, UNK]


def test_unknown_and_long_prompts_warn(model, settings):
    with pytest.warns(UserWarning, match="prompt 2: no word of it is known"):
        assert encode_prompts(Letters(), ["a", "\0ÄÖ"], 13, "half")[1] == [SOS, UNK, UNK, UNK]
    with pytest.warns(UserWarning, match="prompt 1: 21 tokens, the context holds 13; the model sees the last 9"):
        generate_text(model, Letters(), ["abcdefghijklmnopqrst"], settings(), 3)
