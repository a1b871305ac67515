import dataclasses

import pytest

from tinylm.base.config import InputError, read_section
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.tokenizer import make_tokenizer, open_tokenizer

TEXTS = ["The cat sat on the mat.\nThe cat ran.", "A dog ran; the dog's cat sat."]
WORDS = VocabSettings(tokenizer="words")
MADE = {
    "words": WORDS,
    "bpe": dataclasses.replace(WORDS, tokenizer="bpe", max_size=280),
    "longest_match": dataclasses.replace(WORDS, tokenizer="longest_match", max_size=40),
}


@pytest.mark.parametrize("kind", MADE)
def test_what_is_saved_is_opened_as_what_it_was(tmp_path, kind):
    own, seen = make_tokenizer(MADE[kind], lambda: TEXTS)
    own.save(tmp_path / "tokenizer.json")
    loaded = open_tokenizer(tmp_path / "tokenizer.json")
    assert own.kind == loaded.kind == kind
    assert type(own) is type(loaded)
    assert seen == ({"words_seen": 9, "words_seen_once": 5} if kind == "words" else {})
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "tokenizer.json").read_bytes()


@pytest.mark.parametrize("kind", MADE)
def test_the_interface_holds_for_each(kind):
    own, _ = make_tokenizer(MADE[kind], lambda: TEXTS)
    roles = {own.sos_id, own.eos_id, own.unk_id} - {None}
    assert roles <= own.specials
    assert 0 <= own.pad_id < len(own) == len(own.tokens) == len(set(own.tokens))
    for text in [*TEXTS, ""]:
        story = own.encode_story(text)
        start, end = ([role] if role is not None else [] for role in (own.sos_id, own.eos_id))
        assert story[: len(start)] == start
        assert story[len(story) - len(end) :] == end
        body = [index for index in story if index not in own.specials]
        assert own.decode(story) == own.decode(body)
        assert own.split(text) == [own.tokens[index] for index in own.encode(text)]
        assert own.decode(story) == own.normalise(text)
        assert own.normalise(own.normalise(text)) == own.normalise(text)
        assert own.unknown_words(text) == []
    assert not any(own.word_of(index) for index in own.specials)
    assert "cat" in [own.word_of(index) for index in range(len(own))]


@pytest.mark.parametrize(
    "content",
    ["", "{", "[" * 100_000, "[]", "{}", '{"type": "other"}', '{"model": {"type": "BPE"}}', "\xff"],
)
def test_other_files_are_refused_in_one_line(tmp_path, content):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError) as caught:
        open_tokenizer(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_missing_file_names_the_stage(tmp_path):
    with pytest.raises(InputError, match="run dvc repro vocab"):
        open_tokenizer(tmp_path / "tokenizer.json")


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
