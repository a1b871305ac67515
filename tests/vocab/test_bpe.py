import json
import random
import subprocess
import sys

import pytest
import tokenizers

from tinylm.base.config import InputError
from tinylm.vocab.bpe import SPECIALS, train_bpe
from tinylm.vocab.byte_level import CHARACTER_OF, CHUNK
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.tokenizer import open_tokenizer

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
        tokenizer="bpe",
        lower_case=lower_case,
        punctuation="keep",
        min_count=min_count,
        max_size=max_size,
    )


def hostile_texts(count):
    chooser = random.Random(2)
    return [*HOSTILE, *(" ".join(chooser.choices(HOSTILE, k=3)) for _ in range(count))]


def test_merges_are_the_most_frequent_pairs():
    own = train_bpe(["xyxy xyz q xy"], settings(263))
    assert own.tokens[:3] == ["<sos>", "<eos>", "<pad>"]
    assert own.tokens[3:259] == sorted(CHARACTER_OF.values())
    assert own.tokens[259:] == ["xy", "Ġxy", "Ġq", "xyxy"]  # 4 times, twice, then once each, by ids
    assert own.split("xyxyxy xyx") == ["xyxy", "xy", "Ġxy", "x"]


@pytest.mark.parametrize("lower_case", [True, False])
def test_ids_equal_the_library_and_nothing_is_lost(tmp_path, lower_case):
    own = train_bpe(TEXTS, settings(lower_case=lower_case))
    own.save(tmp_path / "tokenizer.json")
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    loaded = open_tokenizer(tmp_path / "tokenizer.json")
    assert (loaded.tokens, loaded.kind) == (own.tokens, "bpe")
    assert own.lossless
    for text in hostile_texts(200):
        ids = own.encode(text)
        assert ids == library.encode(text).ids == loaded.encode(text)
        assert min(ids, default=9) >= len(SPECIALS)  # no text becomes a special token
        assert own.decode(own.encode_story(text)) == own.normalise(text)
        assert own.normalise(text) == (
            text if not lower_case else own.normalise(own.normalise(text))
        )
        assert own.split(text) == [own.tokens[index] for index in ids]


def test_lower_case():
    own = train_bpe(["AAB aab"], settings(lower_case=True))
    assert own.encode("AaB") == own.encode("aab")
    assert own.normalise("AÉ ΟΔΟΣ") == "aé οδοσ"
    assert train_bpe(["AAB aab"], settings()).encode("AAB") != own.encode("AAB")


def test_roles():
    own = train_bpe(TEXTS, settings())
    assert (own.sos_id, own.eos_id, own.pad_id, own.unk_id, own.specials) == (
        0,
        1,
        2,
        None,
        {0, 1, 2},
    )
    assert own.encode_story("cat") == [0, *own.encode("cat"), 1]
    assert own.unknown_words("zzz") == []
    assert own.word_of(own.tokens.index("Ġcat")) == "cat"
    assert own.word_of(0) == ""


def test_a_lone_surrogate_is_a_replacement_character():
    own = train_bpe(TEXTS, settings())
    assert own.decode(own.encode("a\ud800")) == own.normalise("a\ud800") == "a\ufffd"


def test_size_and_minimum_count():
    assert len(train_bpe(TEXTS, settings(270))) == 270
    assert (
        len(train_bpe(TEXTS, settings(5000, min_count=4)))
        < len(train_bpe(TEXTS, settings(5000)))
        < 5000
    )
    assert len(train_bpe([], settings())) == 259


def test_a_text_longer_than_a_piece_has_the_ids_of_the_whole():
    own = train_bpe(TEXTS, settings())
    text = "the cat\n sat on  the mat's hat! " * (3 * CHUNK // 30)
    whole = own._library.encode(text).ids
    assert len(text) > 2 * CHUNK
    assert own.encode(text) == whole
    assert (
        train_bpe([text], settings(280)).tokens
        == train_bpe(text.splitlines(True), settings(280)).tokens
    )


def test_training_repeats_in_another_process():
    program = (
        "from tinylm.vocab.bpe import *; from tinylm.vocab.settings import *; import sys, json\n"
        "texts = json.load(sys.stdin)\n"
        "s = VocabSettings(tokenizer='bpe', lower_case=False, punctuation='keep', max_size=400)\n"
        "print(json.dumps(train_bpe(texts, s).tokens))"
    )
    texts = hostile_texts(50)
    found = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(found.stdout) == train_bpe(texts, settings(400)).tokens


def edit(content, *keys, value):
    for key in keys[:-1]:
        content = content[key]
    content[keys[-1]] = value


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("model", "vocab", "a"), 3),
        (("model", "vocab"), ["a"]),
        (("model", "merges"), None),
        (("model", "merges", 0), ["a"]),
        (("model", "merges", 0), ["a", "日"]),
        (("model", "merges"), []),
        (("model", "unk_token"), "a"),
        (("model", "dropout"), 0.5),
        (("normalizer",), {"type": "NFC"}),
        (("pre_tokenizer",), None),
        (("added_tokens",), [{"id": 1, "content": "<eos>"}]),
    ],
)
def test_a_changed_file_is_refused(tmp_path, keys, value):
    path = tmp_path / "tokenizer.json"
    train_bpe(TEXTS, settings()).save(path)
    content = json.loads(path.read_text("utf-8"))
    edit(content, *keys, value=value)
    path.write_text(json.dumps(content), "utf-8")
    with pytest.raises(InputError, match=r"tokenizer\.json: "):
        open_tokenizer(path)
