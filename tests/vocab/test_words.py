import json
import random
from collections import Counter

import pytest
import tokenizers

from tinylm.base.config import InputError
from tinylm.vocab.settings import PUNCTUATIONS, VocabSettings
from tinylm.vocab.tokenizer import open_tokenizer
from tinylm.vocab.words import MAX_WORD, SPECIALS, build_tokenizer, count_words

RULES = [(lower_case, punctuation) for lower_case in (True, False) for punctuation in PUNCTUATIONS]
HOSTILE = [
    *map(chr, range(128)),
    *"ÄéİıßΣςσǅﬀ\u0130\u0301\u0338\u0345",  # case that grows, shrinks and depends on place; combining marks
    *"\u201c\u201d\u2018\u2019\u2026\u2014\u037e\u1fef\u212a\uff1c\uff1e",  # punctuation, some only after NFC
    *"\u00a0\u3000\u2028\u2029\u0085\u1680\u202f",  # spaces and line ends
    *"\ufeff\u200b\u200d\u00ad\u202e\u2066\ufe0f\ufffd",  # format characters
    *"😀❤👍🏽אבدسनि中文한\u1100\U000e0041\U0010fffd",
    *("<eos>", "<sos>", "<pad>", "<unk>", "<EOS>", "</s>", "<|endoftext|>", "[UNK]"),
    *(
        "a" * MAX_WORD,
        "b" * (MAX_WORD + 1),
        "é" * 250,
        "it's",
        "rock'n'roll",
        "red-haired",
        "O\u2019Neil",
    ),
]


def settings(lower_case=True, punctuation="drop", min_count=1, max_size=None):
    return VocabSettings(
        tokenizer="words",
        lower_case=lower_case,
        punctuation=punctuation,
        min_count=min_count,
        max_size=max_size,
    )


def tokenizer(text, **keys):
    return build_tokenizer(count_words([text], settings(**keys)), settings(**keys))


def hostile_texts(count):
    chooser = random.Random(3)
    return [
        *HOSTILE,
        *("".join(chooser.choices(HOSTILE, k=chooser.randint(1, 25))) for _ in range(count)),
    ]


@pytest.mark.parametrize(("lower_case", "punctuation"), RULES)
def test_ids_equal_the_library_on_hostile_text(tmp_path, lower_case, punctuation):
    texts = hostile_texts(1000)
    own = tokenizer(" ".join(texts[::2]), lower_case=lower_case, punctuation=punctuation)
    own.save(tmp_path / "tokenizer.json")
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    ids = [own.encode(text) for text in texts]
    assert ids == [library.encode(text).ids for text in texts]
    assert not {own.sos_id, own.eos_id, own.pad_id} & {index for row in ids for index in row}
    loaded = open_tokenizer(tmp_path / "tokenizer.json")
    assert loaded.tokens == own.tokens
    assert [loaded.encode(text) for text in texts] == ids


@pytest.mark.parametrize(("lower_case", "punctuation"), RULES)
def test_ascii_path_equals_the_library_path(lower_case, punctuation):
    split = tokenizer("a", lower_case=lower_case, punctuation=punctuation).split
    chooser = random.Random(4)
    for _ in range(3000):
        text = "".join(
            chooser.choices(
                [*map(chr, range(128)), "<eos>", "'s ", "x" * 120], k=chooser.randint(1, 30)
            )
        )
        pieces = split.pre_tokenizer.pre_tokenize_str(split.normalizer.normalize_str(text))
        assert split(text) == [word for word, _ in pieces]


@pytest.mark.parametrize(("lower_case", "punctuation"), RULES)
def test_normalised_text_is_a_fixed_point(lower_case, punctuation):
    own = tokenizer("a", lower_case=lower_case, punctuation=punctuation)
    for text in hostile_texts(1000):
        once = own.normalise(text)
        assert own.normalise(once) == once
        assert once.split() == own.split(text)


@pytest.mark.parametrize(
    "text", ["<eos>", "<sos> <pad>", "a<unk>b", "\u200b<e\u200bos>", "<<eos>>", "<EOS>"]
)
@pytest.mark.parametrize("punctuation", PUNCTUATIONS)
def test_special_token_text_never_becomes_the_special_token(text, punctuation):
    own = tokenizer(f"{text} sos eos pad unk a b", punctuation=punctuation)
    assert min(own.encode(text)) >= len(SPECIALS)  # every word is known, as an ordinary word
    assert not set(own.split(text)) & set(SPECIALS)


@pytest.mark.parametrize(
    ("punctuation", "words"),
    [
        ("drop", ["its", "marys", "redhaired", "cat", "she", "said"]),
        (
            "keep",
            ['"', "it's", "mary's", "red", "-", "haired", "cat", "!", '"', "she", "said", "."],
        ),
        ("attached", ["\"it's", "mary's", "red-haired", 'cat!"', "she", "said."]),
    ],
)
def test_punctuation(punctuation, words):
    assert (
        tokenizer("a", punctuation=punctuation).split("\"It's Mary's red-haired cat!\" she\nsaid.")
        == words
    )


def test_lower_case_letter_by_letter():
    own = tokenizer("a")
    assert own.split("ΟΔΟΣ İstanbul STRASSE") == ["οδοσ", "i\u0307stanbul", "strasse"]
    assert tokenizer("a", lower_case=False).split("Tom TOM") == ["Tom", "TOM"]


def test_controls_part_words_and_format_characters_vanish():
    assert tokenizer("a").split("a\x00b\x1cc\u2028d e\u200bf\ufeff g\u00adh") == [
        "a",
        "b",
        "c",
        "d",
        "ef",
        "gh",
    ]


def test_lone_surrogate_is_a_replacement_character():
    own = tokenizer("\ufffd ab")
    assert own.encode("\ud800") == own.encode("\ufffd") == [own.id_of("\ufffd")]
    assert own.split("\ud83d\ude00") == ["😀"]


@pytest.mark.parametrize("letter", ["x", "é"])
@pytest.mark.parametrize("punctuation", PUNCTUATIONS)
def test_long_word_goes_on_in_further_words(letter, punctuation):
    words = tokenizer("a", punctuation=punctuation).split("a " + letter * 200_003 + " b")
    assert (words[0], words[-1]) == ("a", "b")
    assert "".join(words[1:-1]) == letter * 200_003
    assert max(map(len, words)) <= MAX_WORD < 3 * len(words[1])


def test_order_is_count_then_word():
    own = build_tokenizer(Counter({"b": 2, "c": 5, "a": 2, "é": 2, "z": 1}), settings())
    assert own.tokens == [*SPECIALS, "c", "a", "b", "é", "z"]
    assert (own.sos_id, own.eos_id, own.pad_id, own.unk_id) == (0, 1, 2, 3)
    assert len(own) == 9


def test_minimum_count_and_maximum_size():
    counts = Counter({"a": 5, "b": 3, "c": 1})
    assert build_tokenizer(counts, settings(min_count=3)).tokens[4:] == ["a", "b"]
    assert build_tokenizer(counts, settings(max_size=1)).tokens[4:] == ["a"]
    assert build_tokenizer(counts, settings(max_size=99)).tokens[4:] == ["a", "b", "c"]
    with pytest.raises(InputError, match=r"vocab\.min_count = 6: .* at most 5"):
        build_tokenizer(counts, settings(min_count=6))
    with pytest.raises(InputError, match=r"vocab\.punctuation"):
        build_tokenizer(count_words(["... !"], settings()), settings())


def test_encode_and_decode():
    own = tokenizer("the cat sat")
    ids = own.encode_story("The cat slept.")
    assert ids == [own.sos_id, own.id_of("the"), own.id_of("cat"), own.unk_id, own.eos_id]
    assert own.decode([*ids, own.pad_id]) == "the cat <unk>"
    assert own.id_of("<eos>") is None
    assert own.unknown_words("A cat slept, a CAT sat.") == ["a", "slept", "a"]
    assert [own.word_of(index) for index in range(len(own))] == ["", "", "", "", *own.tokens[4:]]
    assert own.specials == {0, 1, 2, 3}
    assert not own.lossless


@pytest.mark.parametrize(
    "text",
    ['"It\'s late," said Tom (the cat), "so come!" He ran.', "A “red” ball… and 5% more; why?", ""],
)
def test_decode_gives_punctuation_its_spaces(text):
    own = tokenizer(text + " a", punctuation="keep", lower_case=False)
    assert own.decode(own.encode(text)) == text


def edit(*keys, value):
    def change(content):
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return change


def save_changed(path, change):
    tokenizer("a b").save(path)
    content = json.loads(path.read_text("utf-8"))
    change(content)
    path.write_text(json.dumps(content), "utf-8")


@pytest.mark.parametrize(
    "change",
    [
        edit("model", "vocab", "a", value=5),
        edit("model", "vocab", "a", value="x"),
        edit("model", "vocab", value=[]),
        edit("model", "type", value="Unigram"),
        edit("normalizer", value=None),
        edit("added_tokens", value=[{"id": 1, "content": "<eos>"}]),
        lambda content: content["model"]["vocab"].update({"<sos>": 1, "<eos>": 0}),
    ],
)
def test_a_changed_tokenizer_file_is_refused(tmp_path, change):
    save_changed(tmp_path / "tokenizer.json", change)
    with pytest.raises(InputError, match=r"tokenizer\.json: "):
        open_tokenizer(tmp_path / "tokenizer.json")


def test_a_field_that_the_library_has_a_default_for_may_be_missing(tmp_path):
    """A newer library writes fields that files of older ones lack."""
    save_changed(tmp_path / "tokenizer.json", lambda content: content.pop("truncation"))
    assert open_tokenizer(tmp_path / "tokenizer.json").tokens[4:] == ["a", "b"]
