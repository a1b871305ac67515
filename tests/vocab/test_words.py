"""Word-level tokens: equal to the library `tokenizers` that reads the saved file."""

import itertools
import random
from collections import Counter

import pytest
import tokenizers

from tinylm.base.config import InputError
from tinylm.text.words import MAX_WORD
from tinylm.vocab.open_tokenizer import open_tokenizer
from tinylm.vocab.settings import PUNCTUATIONS, VocabSettings
from tinylm.vocab.words import SPECIALS, build_tokenizer, count_words

RULES = list(itertools.product((True, False), PUNCTUATIONS))  # lower_case, punctuation
WORDS = "it's|rock'n'roll'n'soul|red-haired|O\u2019Neil|l'anniversaire|aujourd'|'t|KINGdom|ÉCOLE| I|(x)|$5"
HOSTILE = [
    *map(chr, range(128)),
    *"ÄéİıßΣςσǅﬀ\u0130\u0301\u0338\u0345",  # case that grows, shrinks and depends on place; combining marks
    *"\u201c\u201d\u2018\u2019\u2026\u2014\u037e\u1fef\u212a\uff1c\uff1e",  # punctuation, some only after NFC
    *"\u00a0\u3000\u2028\u2029\u0085\u1680\u202f",  # spaces and line ends
    *"\ufeff\u200b\u200d\u00ad\u202e\u2066\ufe0f\ufffd",  # format characters
    *"😀❤👍🏽אבדسनि中文한\u1100\U000e0041\U0010fffd",
    *("<eos>", "<sos>", "<pad>", "<unk>", "<EOS>", "</s>", "<|endoftext|>", "[UNK]"),
    *("a" * MAX_WORD, "b" * (MAX_WORD + 1), "é" * 250),
    *WORDS.split("|"),
    *("3.5", "1,000.5,", "10:30am", "٣.٥", "3.a", "²:2", "a" * 99 + "'s", "12" * 60 + ".5", "x.5"),
]


def settings(lower_case=True, punctuation="drop", min_count=1, max_size=None):
    return VocabSettings(
        tokenizer="words",
        lower_case=lower_case,
        punctuation=punctuation,
        min_count=min_count,
        max_size=max_size,
    )


def tokenizer_of(text, **keys):
    return build_tokenizer(count_words([text], settings(**keys)), settings(**keys))


def hostile_texts(count, seed=3):
    chooser = random.Random(seed)
    mixed = ("".join(chooser.choices(HOSTILE, k=chooser.randint(1, 25))) for _ in range(count))
    return [*HOSTILE, *mixed]


@pytest.mark.parametrize(("lower_case", "punctuation"), RULES)
def test_ids_equal_the_library_on_hostile_text(tmp_path, lower_case, punctuation):
    texts = hostile_texts(1000)
    words = tokenizer_of(" ".join(texts[::2]), lower_case=lower_case, punctuation=punctuation)
    words.save(tmp_path / "tokenizer.json")
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    ids = [words.encode(text) for text in texts]
    assert ids == [library.encode(text).ids for text in texts]
    assert not {words.sos_id, words.eos_id, words.pad_id} & set().union(*ids)
    loaded = open_tokenizer(tmp_path / "tokenizer.json")
    assert [loaded.encode(text) for text in texts] == ids


@pytest.mark.parametrize(
    ("punctuation", "expected"),
    [
        ("drop", "its marys redhaired cat she said"),
        ("keep", "\" it's mary's red - haired cat ! \" she said ."),
        ("attached", "\"it's mary's red-haired cat!\" she said."),
    ],
)
def test_punctuation(punctuation, expected):
    words = tokenizer_of("a", punctuation=punctuation)
    assert words.split("\"It's Mary's red-haired cat!\" she\nsaid.") == expected.split()


@pytest.mark.parametrize(
    ("text", "drop", "keep"),
    [
        ("said--well", "said well", "said - - well"),
        ("late—the and/or a…b", "late the and or a b", "late — the and / or a … b"),
        ('home.When so,"no 1...2', "home when so no 1 2", 'home . when so , " no 1 . . . 2'),
        ("it`s 3.5 col·lega", "its 35 collega", "it`s 3.5 col·lega"),
        ('ארה"ב a"b', "ארהב a b", 'ארה"ב a " b'),
        ("བོད་ཡིག་ ሰላም፡ልዑል", "བོད ཡིག ሰላም ልዑል", "བོད ་ ཡིག ་ ሰላም ፡ ልዑል"),
        ("می\u200cخواهم 👨\u200d👩", "می\u200cخواهم 👨👩", "می\u200cخواهم 👨 👩"),
        ("m² 1½ x⁴ CO₂", "m² 1½ x⁴ co₂", "m² 1½ x⁴ co₂"),
    ],
)
def test_what_stands_inside_words_and_what_separates_them(text, drop, keep):
    assert tokenizer_of("a", punctuation="drop").split(text) == drop.split(" ")
    assert tokenizer_of("a", punctuation="keep").split(text) == keep.split(" ")


def test_marks_instead_of_spaces_stay_on_attached_words():
    words = tokenizer_of("a", punctuation="attached")
    assert words.split("བོད་ཡིག་ ሰላም፡ልዑል") == ["བོད་", "ཡིག་", "ሰላም፡", "ልዑል"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ΟΔΟΣ İstanbul STRASSE", ["οδοσ", "i\u0307stanbul", "strasse"]),
        ("a\x00b\x1cc\u2028d e\u200bf\ufeff g\u00adh", ["a", "b", "c", "d", "ef", "gh"]),
        ("\ud83d\ude00 \ud800", ["😀", "\ufffd"]),
    ],
)
def test_case_controls_and_surrogates(text, expected):
    assert tokenizer_of("a").split(text) == expected


def test_order_minimum_count_and_maximum_size():
    counts = Counter({"b": 2, "c": 5, "a": 2, "é": 2, "z": 1})
    words = ["c", "a", "b", "é", "z"]  # by count, then by word
    assert build_tokenizer(counts, settings()).tokens == [*SPECIALS, *words]
    assert build_tokenizer(counts, settings(min_count=2)).tokens[4:] == words[:4]
    assert build_tokenizer(counts, settings(max_size=2)).tokens[4:] == words[:2]
    with pytest.raises(InputError, match=r"vocab\.min_count"):
        build_tokenizer(counts, settings(min_count=6))
    with pytest.raises(InputError, match=r"vocab\.min_count"):
        build_tokenizer(count_words(["... !"], settings()), settings())


def test_unknown_words():
    words = tokenizer_of("the cat sat")
    ids = words.encode_story("The cat slept.")
    assert [words.tokens[index] for index in ids] == ["<sos>", "the", "cat", "<unk>", "<eos>"]
    assert words.decode([*ids, words.pad_id]) == "the cat <unk>"
    assert words.unknown_words("A cat slept, a CAT sat.") == ["a", "slept", "a"]
    assert not words.lossless


@pytest.mark.parametrize(
    "text",
    [
        '"It\'s late," said Tom (the cat), "so come!" He ran.',
        "A “red” ball… and 5% more; why?",
        "A 5-year-old paid $1,000.50 and/or 3.5kg at 10:30, in 1999, 12 times.",
        "L'anniversaire de l'instituteur; rock'n'roll'ers of O'Neil's",
        "„Wohin?“ fragte er. »Nach ›Ulm‹«, sagte sie.",
        "¿Qué? ¡No! «Sí», dijo. ‘Yes,’ “‘no’” 'so' \"he 'said'\".",
        "कहानी-संग्रह བོད་ཡིག",
        "",
    ],
)
def test_decoding_gives_punctuation_its_spaces(text):
    words = tokenizer_of(text + " a", punctuation="keep", lower_case=False)
    assert words.decode(words.encode(text)) == text
