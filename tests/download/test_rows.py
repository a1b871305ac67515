"""The short ways of download against the plain rule."""

import dataclasses
import hashlib
import itertools
import json
import random
import re
import unicodedata

import numpy as np
import pytest

from tests.download.test_corpus import LOCAL
from tinylm.base.config import InputError
from tinylm.download import cleaning, marked_text, readers, rows
from tinylm.download.clean_blocks import clean_block
from tinylm.download.cleaning import clean_text
from tinylm.download.marked_text import END_OF_TEXT, parts_of
from tinylm.download.rows import bare_hash, chunks, clean_row, json_line, peek, spaced_words
from tinylm.kernels.text.cleaning import LIBRARY

PIECES = [
    *map(chr, range(160)),
    *"ÄéßΣς\u0301\u0345\u200b\ufeff\u00ad\u2028\u2029\u0085\u00a0\u3000\ud800\udc00\ue000\u0378😀中\u212b\u1100\u1161",
    *(
        "â€œ",
        "â€\x9d",
        "â€™",
        "â€",
        "â\x80\x9c",
        "“a”",
        "  ",
        "\r\n",
        '"',
        "\\",
        "\\n",
        "said the dog.",
    ),
]


def hostile(count=3000):
    chooser = random.Random(11)
    return [
        *PIECES,
        *("".join(chooser.choices(PIECES, k=chooser.randint(0, 12))) for _ in range(count)),
    ]


@pytest.mark.parametrize("repair", [True, False])
def test_short_way_of_cleaning_is_the_rule(repair):
    texts = [*hostile(), *map(chr, range(0x110000))]
    assert [clean_text(text, repair) for text in texts] == [
        cleaning._by_the_rule(text, repair) for text in texts
    ]


def test_printable_text_has_nothing_to_delete_or_to_replace():
    changed = [
        chr(code)
        for code in range(0x110000)
        if code in cleaning._format_characters() or code in cleaning._CONTROLS
    ]
    assert not [character for character in changed if character != "\n" and character.isprintable()]


def test_rows_are_those_of_the_plain_way():
    pairs = [(text, -0.1 * number if number % 3 else None) for number, text in enumerate(hostile())]
    for raw, log_prob in pairs:
        row = clean_row(raw, log_prob, LOCAL)
        text = clean_text(raw, True)
        if not text:
            assert row is None
            continue
        known = {} if log_prob is None else {"log_prob": log_prob}
        line = json.dumps({"text": text} | known, ensure_ascii=False) + "\n"
        words = text.split()
        key = hashlib.blake2b(f"1\n{' '.join(words)}".encode(), digest_size=16).digest()
        bare = hashlib.blake2b(
            re.sub(r"[\W_]+", "", text.casefold()).encode(), digest_size=16
        ).digest()
        expected = (
            line.encode(),
            int.from_bytes(key[:8], "big"),
            bare,
            len(words),
            len(text.encode()),
            log_prob,
        )
        assert row == expected


def test_by_hand():
    assert spaced_words("a  b\n\n c") == "a b c"
    assert json_line('say "\\n"\n', None) == b'{"text": "say \\"\\\\n\\"\\n"}\n'
    assert json_line("a", -1.5) == b'{"text": "a", "log_prob": -1.5}\n'
    assert bare_hash("A b_1!") == bare_hash("ab1") != bare_hash("ab2")
    assert unicodedata.is_normalized("NFC", clean_text("e\u0301", True))


def failing():
    for number in range(20):
        yield "x" * 10, None
        if number == 12:
            raise InputError("line 13")


@pytest.mark.parametrize("size", [1, 25, 1000])
def test_an_error_of_reading_comes_behind_the_rows_before_it(monkeypatch, size):
    monkeypatch.setattr(rows, "CHUNK", size)
    parts, many = peek(chunks(failing()))
    assert many == (size == 1)
    found = []
    with pytest.raises(InputError, match="line 13"):
        found.extend(itertools.chain.from_iterable(parts))
    assert len(found) == 13


def test_few_chunks_are_worth_one_process(monkeypatch):
    monkeypatch.setattr(rows, "CHUNK", 1)
    for count, many in ((rows.FEW - 1, False), (rows.FEW, True)):
        parts, found = peek(chunks([("a", None)] * count))
        assert (found, len(list(parts))) == (many, count)


def assert_equal(one, two):
    for name, left, right in zip(one._fields, one, two, strict=True):
        assert np.array_equal(left, right) if isinstance(left, np.ndarray) else left == right, name


def compiled():
    if not LIBRARY.is_at_hand():
        pytest.skip("no C++ compiler")
    return True


def test_compiled_code_makes_the_same_blocks():
    texts = [
        *hostile(),
        *(" ".join(map(str, range(count))) for count in range(200)),
        "",
        "Aa" * 5000,
    ]
    for part in (texts, texts[:1], [""], ["é"], ["", "plain"], []):
        pairs = [(text, None) for text in part]
        for chosen in (LOCAL, dataclasses.replace(LOCAL, seed=77, repair_quotes=False)):
            assert_equal(clean_block(pairs, chosen, compiled()), clean_block(pairs, chosen, False))
    known = [(text, -1.5) for text in texts]
    assert_equal(clean_block(known, LOCAL, compiled()), clean_block(known, LOCAL, False))


def test_compiled_code_reads_marked_files_alike(tmp_path):
    chooser = random.Random(2)
    pieces = [
        MARK.encode(),
        b"\n",
        b"\n\n",
        b" ",
        b"\t",
        b"\r\n",
        b"One day.",
        "é".encode(),
        b"\xef\xbb\xbf",
    ]
    for number in range(40):
        path = tmp_path / f"{number}.txt"
        path.write_bytes(MARK.encode() + b"".join(chooser.choices(pieces, k=60)))
        for part in parts_of(path, chooser.randint(1, 200), 10_000):
            for chosen in (LOCAL, dataclasses.replace(LOCAL, drop_first_line=True)):
                assert_equal(
                    clean_block(part, chosen, compiled()), clean_block(part, chosen, False)
                )


@pytest.mark.parametrize("with_code", [True, False])
def test_a_part_that_is_not_utf8_names_the_files_line(tmp_path, with_code):
    path = tmp_path / "a.txt"
    path.write_bytes(b"One day.\n" + END_OF_TEXT + b"\nTwo\ncaf\xe9s.\n" + END_OF_TEXT)
    *_, last = parts_of(path, 1, 10_000)
    with pytest.raises(InputError, match=r"a\.txt, line 4, byte 4: 0xe9 is not UTF-8"):
        clean_block(last, LOCAL, with_code and compiled())


def test_parts_of_a_file_are_all_of_it_and_end_behind_marks(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    content = (b"one" + END_OF_TEXT + b"\ntwo words" + END_OF_TEXT) * 20 + b"rest"
    path.write_bytes(content)
    for size, seen in itertools.product((1, 5, 30, 10_000), (13, 14, 50, 1 << 16)):
        monkeypatch.setattr(marked_text, "SEEN", seen)
        parts = list(parts_of(path, size, 1000))
        assert b"".join(content[part.start : part.end] for part in parts) == content
        assert all(content[: part.end].endswith(END_OF_TEXT) for part in parts[:-1])
        assert size > 1 or len(parts) == 41


MARK = END_OF_TEXT.decode()


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
@pytest.mark.parametrize("start", ["", "\ufeff", "\n\n "])
def test_marked_text_by_pieces_is_that_by_lines(tmp_path, monkeypatch, piece, start):
    monkeypatch.setattr(readers, "PIECE", piece)
    chooser = random.Random(2)
    parts = [MARK, MARK[:5], "\n", "\n\n", " ", "\t", "\r\n", "One day.", "é", "\x0b"]
    for _ in range(200 if piece > 1 else 30):
        text = start + MARK + "".join(chooser.choices(parts, k=chooser.randint(0, 30)))
        path = tmp_path / "a.txt"
        path.write_bytes(text.encode())
        assert list(readers.read_file(path, "text")) == list(readers._read_by_lines(path, True))


def test_a_story_without_end_is_named_with_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "MAX_STORY_BYTES", 40)
    path = tmp_path / "a.txt"
    path.write_text(f"one\n{MARK}\n" + "x" * 30 + "\n" + "y" * 30 + f"\n{MARK}\n")
    with pytest.raises(InputError, match=r"line 4: a story longer than 40 bytes"):
        list(readers.read_file(path, "text"))
