from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tinylm.config import InputError
from tinylm.text import vec_file
from tinylm.text.vec_file import read_vectors
from tinylm.text.words import VocabSettings, build_tokenizer

SHARED = Path(__file__).parents[3] / "shared" / "fasttext"


def vocabulary(*words, lower_case=True):
    return build_tokenizer(Counter(words), VocabSettings(lower_case, "keep", 1, None))


def read(path, tokenizer, width=2):
    matrix = np.zeros((len(tokenizer), width), dtype=np.float32)
    covered = np.zeros(len(tokenizer), dtype=bool)
    warnings = read_vectors(path, tokenizer, matrix, covered)
    rows = {tokenizer.words[i]: matrix[i].tolist() for i in np.flatnonzero(covered)}
    assert not matrix[~covered].any()
    return rows, warnings


@pytest.fixture
def vec(tmp_path):
    def write(content):
        path = tmp_path / "a.vec"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_rows_of_known_words(vec):
    path = vec("4 2\nthe 0.5 -1 \n, 1e-3 2\nother nan x\n\u00a0é 1 1\n")
    assert read(path, vocabulary("the", ",", "cat")) == ({"the": [0.5, -1], ",": [np.float32(1e-3), 2]}, [])


def test_lower_cased_words_of_the_file_serve_a_lower_case_vocabulary(vec):
    path = vec("5 2\nParis 1 1\nPARIS 2 2\nRome 3 3\nrome 4 4\nROME 5 5\n")
    assert read(path, vocabulary("paris", "rome"))[0] == {"paris": [1, 1], "rome": [4, 4]}
    cased = vocabulary("paris", "Rome", lower_case=False)
    assert read(path, cased)[0] == {"Rome": [3, 3]}


def test_special_tokens_have_no_row(vec):
    rows, _ = read(vec("3 2\n<eos> 1 1\n<unk> 1 1\na 2 2\n"), vocabulary("a"))
    assert rows == {"a": [2, 2]}


def test_first_of_equal_words_wins_and_it_is_said(vec):
    rows, warnings = read(vec("3 2\na 1 1\na 2 2\na 3 3\n"), vocabulary("a"))
    assert rows == {"a": [1, 1]}
    assert len(warnings) == 1
    assert "2 rows repeat a word; the first" in warnings[0]


@pytest.mark.parametrize("promised", [1, 9])
def test_wrong_count_is_said(vec, promised):
    rows, warnings = read(vec(f"{promised} 2\na 1 1\nb 2 2\n"), vocabulary("a", "b"))
    assert rows == {"a": [1, 1], "b": [2, 2]}
    assert f"promises {promised} rows, 2 are there" in warnings[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", ", line 1: not the header"),
        ("a 1 1\n", ", line 1: not the header"),
        ("2 -2\na 1 1\n", ", line 1: not the header"),
        ("2 99999999999999\na 1 1\n", ", line 1: not the header"),
        (b"\xba\x16\x4f\x2f\x0c\x00\x00\x00", ", line 1: not the header"),
        ("2 3\na 1 1 1\n", ", line 1: vectors of width 3; embedding.width = 2"),
        ("2 2\na 1 1\nb 2\n", ", line 3: 1 values after the word; allowed: 2"),
        ("2 2\na 1 1 1\n", ", line 2: 3 values"),
        ("2 2\nother 1\na 1 1\n", ", line 2: 1 values"),
        ("2 2\nnew york 1 1\na 1 1\n", ", line 2: 3 values"),
        ("2 2\na 1 1\n\nb 1 1\n", ", line 3: 0 values"),
        ("2 2\na 1 nan\n", ", line 2: holds a value that is not finite"),
        ("2 2\na 1 -inf\n", ", line 2: holds a value that is not finite"),
        ("2 2\na 1 1e39\n", ", line 2: holds a value that is not finite"),
        ("2 2\na 1 x\n", ", line 2: could not convert"),
        ("2 2\na 1  1\n", ", line 2: 3 values"),
        ("2 2\nother 1 1\n", ": of 6 vocabulary entries none is among its 1 words"),
    ],
)
def test_bad_files_are_refused_with_the_line(vec, content, message):
    path = vec(content)
    with pytest.raises(InputError) as caught:
        read(path, vocabulary("a", "b"))
    assert str(caught.value).startswith(f"{path}{message}")


def test_line_without_end(vec, monkeypatch):
    monkeypatch.setattr(vec_file, "MAX_LINE_BYTES", 100)
    with pytest.raises(InputError, match="line 3: longer than 100 bytes"):
        read(vec("2 2\na 1 1\n" + "x" * 1000), vocabulary("a"))


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"embedding.path = '.*none.vec': cannot be read"):
        read(tmp_path / "none.vec", vocabulary("a"))


@pytest.mark.skipif(not SHARED.exists(), reason="needs the shared files; their shape is tested above")
@pytest.mark.parametrize(("name", "width"), [("wiki.en.first99.vec", 300), ("crime-and-punishment.vec", 5)])
def test_files_of_the_official_program(name, width):
    rows, _ = read(SHARED / name, vocabulary("the", "and", "zebra"), width)
    assert set(rows) == {"the", "and"}
    line = next(line for line in (SHARED / name).read_text("utf-8").splitlines() if line.startswith("the "))
    assert rows["the"] == [float(np.float32(value)) for value in line.split()[1:]]
