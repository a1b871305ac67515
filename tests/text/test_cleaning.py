"""Cleaning and identical stories: the fast paths give the same result as the plain rule."""

import random
import re
import unicodedata

import pytest

from tinylm.text.cleaning import clean_text, unify_by_the_rule
from tinylm.text.same_story import bare_text
from tinylm.text.words import Splitter

PIECES = [
    *map(chr, range(160)),
    *"ÄéßΣς\u0301\u0345\u200b\ufeff\u00ad\u2028\u2029\u0085\u00a0\u3000\ud800\udc00\ue000\u0378😀中",
    *("â€œ", "â€\x9d", "â€™", "â€", "â\x80\x9c", "“a”", "  ", "\r\n", '"', "\\", "said the dog."),
]


def hostile_texts(count=3000):
    chooser = random.Random(11)
    texts = ["".join(chooser.choices(PIECES, k=chooser.randint(0, 12))) for _ in range(count)]
    return PIECES + texts


@pytest.mark.parametrize("repair", [True, False])
def test_the_short_way_of_cleaning_is_the_rule(repair):
    for text in [*hostile_texts(), *map(chr, range(0x110000))]:
        assert clean_text(text, repair) == unify_by_the_rule(text, repair).strip()


def test_cleaning_twice_changes_nothing_and_the_result_is_utf8():
    for text in hostile_texts():
        once = clean_text(text, repair=True)
        once.encode()
        assert unicodedata.is_normalized("NFC", once)
        assert clean_text(once, repair=True) == once


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
def test_misread_punctuation_is_repaired(encoding):
    for mark in "\u2018\u2019\u201c\u2013\u2014\u2026":
        misread = f"a{mark}b".encode().decode(encoding)
        assert clean_text(misread, repair=True) == f"a{mark}b"
        assert clean_text(misread, repair=False) != f"a{mark}b"


@pytest.mark.parametrize("lost", ["\u20ac\x9d", "\u20ac\ufffd", "\u20ac", "\x80\x9d"])
@pytest.mark.parametrize("after", ["", " she", "\u00e2\u20ac\u2122"])
def test_a_closing_quote_that_lost_its_last_byte_is_repaired(lost, after):
    repaired = after.replace("\u00e2\u20ac\u2122", "\u2019")
    assert clean_text(f"go!\u00e2{lost}{after}", repair=True) == f"go!\u201d{repaired}"


def test_sound_text_stays():
    for text in ("CAFÉ\u201d", "pâté", "â la carte", "5 €", "AMANHÃ\u201d"):
        assert clean_text(text, repair=True) == text


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\r\nb\rc\u2028d\u2029e\x85f\x0cg\x0bh", "a\nb\nc\nd\ne\nf\ng\nh"),
        ("\ufeffa\x00b\tc\x7fd", "a b\tc d"),
        ("a\u200bb\u00ad\u202e\x9fc", "ab c"),
        ("\ud800 \ud83d\ude00", "\ufffd 😀"),
        (" \n\t\u3000\ufeff", ""),
        ("می\u200cخواهم 👨\u200d👩", "می\u200cخواهم 👨\u200d👩"),
    ],
)
def test_line_ends_controls_format_characters_and_surrogates(text, cleaned):
    assert clean_text(text, repair=True) == cleaned


def test_bare_text_is_what_the_coarsest_tokenizer_keeps():
    splitter = Splitter(lower_case=True, punctuation="drop")
    known = [code for code in range(0x11000) if unicodedata.category(chr(code)) != "Cn"]
    for raw in [*hostile_texts(), *map(chr, known), "ΣΑΣ Maße MASSE İstanbul"]:
        text = clean_text(raw, repair=True)
        kept = re.sub("[\u200c\u200d]", "", "".join(splitter(text)))  # joiners make no other story
        assert bare_text(text) == unicodedata.normalize("NFC", kept).encode(), repr(text)
