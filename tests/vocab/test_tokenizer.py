"""What holds for every tokenizer: its interface, its file and its settings."""

import dataclasses
import signal

import pytest

from tinylm.base.command import Interrupted
from tinylm.base.config import InputError, read_section
from tinylm.vocab import open_tokenizer as opening
from tinylm.vocab.make_tokenizer import make_tokenizer
from tinylm.vocab.open_tokenizer import open_tokenizer
from tinylm.vocab.settings import VocabSettings

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


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_kind.json"])
@pytest.mark.parametrize("content", [None, "{", "[]", "{}", '{"kind": "others", "model": {}}'])
def test_a_missing_or_damaged_file_is_refused(tmp_path, tokenizer, name, content):
    tokenizer.save(tmp_path / "tokenizer.json")
    (tmp_path / name).unlink() if content is None else (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match="tokenizer"):
        open_tokenizer(tmp_path / "tokenizer.json")


def test_a_signal_while_a_tokenizer_is_read_stays_that_signal(tmp_path, monkeypatch, tokenizer):
    tokenizer.save(tmp_path / "tokenizer.json")

    def terminated(*_):
        raise Interrupted(signal.SIGTERM, "terminated")

    monkeypatch.setattr(opening, "_with_vocabulary", terminated)
    with pytest.raises(Interrupted):
        open_tokenizer(tmp_path / "tokenizer.json")


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"tokenizer": "bpe"}, "max_size"),
        ({"tokenizer": "bpe", "max_size": 258}, "max_size"),
        ({"tokenizer": "longest_match"}, "max_size"),
        ({"tokenizer": "gpt2"}, "path"),
        ({"tokenizer": "wordpiece"}, "tokenizer"),
    ],
)
def test_settings_that_do_not_go_together(changes, key):
    section = dataclasses.asdict(WORDS)
    assert read_section({"vocab": section}, "vocab", VocabSettings) == WORDS
    with pytest.raises(InputError, match=rf"vocab\.{key}\b"):
        read_section({"vocab": section | changes}, "vocab", VocabSettings)
