"""The pieces of a text that is written token by token."""

import pytest

from tinylm.api.language_model import pieces
from tinylm.vocab.kinds import make_tokenizer
from tinylm.vocab.settings import VocabSettings

TEXTS = [
    "The 😀 cat sat on the mat.\nThe cat ran, é!",
    "THE DOG ran; the dog's cat sat. 日本 a😀c日",
]


@pytest.mark.parametrize(("kind", "size"), [("bpe", 270), ("longest_match", 60)])
def test_a_character_of_several_tokens_is_shown_when_it_is_whole(kind, size):
    settings = VocabSettings(tokenizer=kind, max_size=size)
    tokenizer, _ = make_tokenizer(settings, lambda: TEXTS)
    ids = tokenizer.encode_story("a😀c日")
    parts = list(pieces(tokenizer, (ids[:end] for end in range(1, len(ids) + 1))))
    assert "\ufffd" not in "".join(parts)
    assert "".join(parts) == "a😀c日"
    if kind == "bpe":
        assert list(pieces(tokenizer, [ids[:-2]])) == ["a😀c", "\ufffd"]
