import random

import pytest

from tinylm.download.cleaning import clean_text, repair_quotes


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
@pytest.mark.parametrize("mark", list("\u2018\u2019\u201c\u2013\u2014\u2026"))
def test_misread_punctuation_is_mended(mark, encoding):
    misread = f"a{mark}b".encode().decode(encoding)
    assert misread != f"a{mark}b"
    assert repair_quotes(misread) == f"a{mark}b"


@pytest.mark.parametrize(
    "lost", ["\u00e2\u20ac\x9d", "\u00e2\u20ac\ufffd", "\u00e2\u20ac", "\u00e2\x80\x9d"]
)
@pytest.mark.parametrize("after", ["", " she", "\nShe", "."])
def test_closing_quote_that_lost_its_last_byte(lost, after):
    assert clean_text(f"go!{lost}{after}", repair=True) == f"go!\u201d{after}"


def test_misread_marks_side_by_side():
    assert repair_quotes("\u00e2\u20ac\u00e2\u20ac") == "\u201d\u201d"
    assert repair_quotes("\u00e2\u20ac\u00e2\u20ac\u2122") == "\u201d\u2019"


@pytest.mark.parametrize(
    "text", ["CAFÉ\u201d", "pâté", "â la carte", "5 €", "\u201cfine\u201d", "AMANHÃ\u201d"]
)
def test_sound_text_stays(text):
    assert repair_quotes(text) == text
    assert clean_text(text, repair=True) == text


def test_repair_is_a_choice():
    assert clean_text("\u00e2\u20ac\u0153go", repair=False) == "\u00e2\u20ac\u0153go"


@pytest.mark.parametrize("end", ["\r\n", "\r", "\u2028", "\u2029", "\x85", "\x0c", "\x0b"])
def test_line_ends_become_line_feeds(end):
    assert clean_text(f"a{end}b", repair=True) == "a\nb"


def test_controls_formats_and_surrogates():
    assert clean_text("\ufeffa\x00b\tc\x7fd", repair=True) == "a b c d"
    assert clean_text("a\u200bb\u00ad\u202e\x9fc", repair=True) == "ab c"
    assert clean_text("\ud800 \ud83d\ude00", repair=True) == "\ufffd 😀"
    assert clean_text("e\u0301", repair=True) == "é"
    assert clean_text(" \n\t\u3000\ufeff", repair=True) == ""


def test_cleaning_twice_changes_nothing_and_the_result_is_utf8():
    chooser = random.Random(5)
    letters = "a\u00e2\u20ac\x80\x93\u201d\u0153\x9d\ufffd\r\n\x00\u0301\ufeff\ud800\udc00\u200de \u037e😀"
    for _ in range(5000):
        text = "".join(chooser.choices(letters, k=chooser.randint(1, 12)))
        once = clean_text(text, repair=True)
        once.encode()
        assert clean_text(once, repair=True) == once
