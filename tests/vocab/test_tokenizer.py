"""What holds for every tokenizer: its interface, its file and its settings."""

import dataclasses
import json

import pytest

from tinylm.base.config import InputError, read_section
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.tokenizer import make_tokenizer, open_tokenizer

TEXTS = ["The cat sat on the mat.\nThe cat ran.", "A dog ran; the dog's cat sat."]
WORDS = VocabSettings(tokenizer="words")
SETTINGS = {
    "words": WORDS,
    "bpe": dataclasses.replace(WORDS, tokenizer="bpe", max_size=280),
    "longest_match": dataclasses.replace(WORDS, tokenizer="longest_match", max_size=40),
}
ROLES = {"words": (0, 1, 2, 3), "bpe": (0, 1, 2, None), "longest_match": (None, None, 0, None)}


@pytest.fixture(params=SETTINGS)
def tokenizer(request):
    return make_tokenizer(SETTINGS[request.param], lambda: TEXTS)[0]


def test_what_is_saved_is_opened_as_what_it_was(tmp_path, tokenizer):
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = open_tokenizer(tmp_path / "tokenizer.json")
    assert loaded.kind == tokenizer.kind
    assert loaded.tokens == tokenizer.tokens
    for text in TEXTS:
        assert loaded.encode_story(text) == tokenizer.encode_story(text)
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "tokenizer.json").read_bytes()


def test_the_interface_holds_for_each(tokenizer):
    roles = (tokenizer.sos_id, tokenizer.eos_id, tokenizer.pad_id, tokenizer.unk_id)
    assert roles == ROLES[tokenizer.kind]
    for text in [*TEXTS, ""]:
        story = tokenizer.encode_story(text)
        bare = [index for index in story if index not in tokenizer.specials]
        assert story == [*([0] if roles[0] == 0 else []), *bare, *([1] if roles[1] else [])]
        assert tokenizer.split(text) == [tokenizer.tokens[i] for i in tokenizer.encode(text)]
        assert tokenizer.decode(story) == tokenizer.decode(bare) == tokenizer.normalise(text)
        assert tokenizer.unknown_words(text) == []
    assert not any(tokenizer.word_of(index) for index in tokenizer.specials)
    assert "cat" in [tokenizer.word_of(index) for index in range(len(tokenizer))]


@pytest.mark.parametrize(
    ("kind", "part", "value"),
    [
        ("words", "normalizer", None),
        ("words", "added_tokens", [{"id": 1, "content": "<eos>"}]),
        ("words", "model", {"type": "WordLevel", "vocab": {"a": 5}, "unk_token": "a"}),
        ("bpe", "normalizer", {"type": "Prepend", "prepend": "x"}),
        ("bpe", "model", {"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "b"]]}),
        ("longest_match", "model", {"type": "WordPiece", "vocab": {}, "unk_token": "a"}),
    ],
)
def test_a_file_with_another_rule_is_refused(tmp_path, kind, part, value):
    path = tmp_path / "tokenizer.json"
    make_tokenizer(SETTINGS[kind], lambda: TEXTS)[0].save(path)
    other = json.dumps(json.loads(path.read_text("utf-8")) | {part: value})
    for content in (other, other[:-1], "[]"):
        path.write_text(content, "utf-8")
        with pytest.raises(InputError, match=r"tokenizer\.json"):
            open_tokenizer(path)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"tokenizer": "bpe"}, "max_size"),
        ({"tokenizer": "bpe", "max_size": 258}, "max_size"),
        ({"tokenizer": "longest_match"}, "max_size"),
        ({"tokenizer": "gpt2"}, "path"),
        ({"tokenizer": "gpt2", "hub_id": "a/b"}, "hub_revision"),
        ({"hub_id": ""}, "hub_id"),
        ({"tokenizer": "wordpiece"}, "tokenizer"),
    ],
)
def test_settings_that_do_not_go_together(changes, key):
    section = dataclasses.asdict(WORDS)
    assert read_section({"vocab": section}, "vocab", VocabSettings) == WORDS
    with pytest.raises(InputError, match=rf"vocab\.{key} "):
        read_section({"vocab": section | changes}, "vocab", VocabSettings)
