"""`.vec` files are read as a stream; a bad line is named."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from tinylm.base.config import InputError
from tinylm.embedding import vec_file
from tinylm.embedding.fasttext_bin import read_bin
from tinylm.embedding.vec_file import check_vec, read_vec

SHARED = Path(__file__).parents[3] / "shared" / "fasttext"


def read(path, words, width=2):
    table = np.zeros((len(words), width), dtype=np.float32)
    covered = np.zeros(len(words), dtype=bool)
    read_vec(path, words, table, covered)
    assert not table[~covered].any()
    return {words[i]: table[i].tolist() for i in np.flatnonzero(covered)}


@pytest.fixture
def vec(tmp_path):
    def write(content, name="a.vec"):
        content = content if isinstance(content, bytes) else content.encode()
        path = tmp_path / name
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write


@pytest.mark.parametrize("name", ["a.vec", "a.vec.gz"])
def test_rows_of_the_wanted_words(vec, name):
    path = vec("4 2\nthe 0.5 -1 \n, 1e-3 2\nother x 1e39\n\u00a0é 1 1\n", name)
    assert read(path, ["the", ",", "cat"]) == {"the": [0.5, -1], ",": [np.float32(1e-3), 2]}


def test_a_word_in_other_case_serves_if_the_word_itself_is_missing(vec):
    path = vec("6 2\nParis 1 1\nPARIS 2 2\nRome 3 3\nrome 4 4\nROME 5 5\nthe 6 6\n")
    assert read(path, ["paris", "rome"]) == {"paris": [1, 1], "rome": [4, 4]}
    rows = {"paris": [1, 1], "Rome": [3, 3], "rome": [4, 4], "The": [6, 6], "the": [6, 6]}
    assert read(path, list(rows)) == rows
    assert read(path, ["the\u0301", "Pari"]) == {}


def test_the_first_of_equal_words_wins(vec):
    assert read(vec("4 2\na 1 1\na 2 2\na 3 3\nA 4 4\n"), ["a"]) == {"a": [1, 1]}


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", 1),
        ("a 1 1\n", 1),
        ("2 99999999999999\na 1 1\n", 1),
        (b"\xba\x16\x4f\x2f\x0c\x00\x00\x00", 1),
        ("2 3\na 1 1 1\n", 1),
        ("2 2\na 1 1\nb 2\n", 3),
        ("2 2\nother 1\na 1 1\n", 2),
        ("2 2\nnew york 1 1\na 1 1\n", 2),
        ("2 2\na 1 1\n\nb 1 1\n", 3),
        ("2 2\na 1 nan\n", 2),
        ("2 2\na 1 1e39\n", 2),
        ("2 2\na 1 x\n", 2),
        ("1 2\na 1 1\nb 2 2\n", 3),
        ("9 2\na 1 1\nb 2 2\n", 3),
    ],
)
@pytest.mark.parametrize("name", ["a.vec", "a.vec.gz"])
def test_bad_files_are_refused_with_the_line(vec, name, content, line):
    path = vec(content, name)
    with pytest.raises(InputError) as caught:
        read(path, ["a", "b"])
    assert str(caught.value).startswith(f"{path}, line {line}: ")


def test_a_line_without_end(vec, monkeypatch):
    monkeypatch.setattr(vec_file, "MAX_LINE_BYTES", 100)
    with pytest.raises(InputError, match="line 3: longer than 100 bytes"):
        read(vec("2 2\na 1 1\n" + "x" * 1000), ["a"])


def test_damaged_gzip_files_are_refused(vec):
    path = vec("".join(["99 2\n", *(f"w{row} {row} 0.{row}\n" for row in range(99))]), "a.vec.gz")
    content = path.read_bytes()
    assert len(read(path, ["w0", "w98"])) == 2
    for damaged in (b"no gzip", content[:-9], content[:20], content[:-8] + b"\0" * 8):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"a\.vec\.gz.* gzip|line"):
            read(path, ["w0", "w98"])


def test_check_reads_the_header_alone(vec):
    check_vec(vec("9 2\nnothing else"), 2)
    with pytest.raises(InputError, match=r"embedding\.width = 3"):
        check_vec(vec("9 2\n"), 3)


@pytest.mark.skipif(not SHARED.exists(), reason="needs ../shared/fasttext")
def test_a_file_of_the_official_program_is_its_binary_twin_rounded():
    path = SHARED / "crime-and-punishment.vec"
    words = [line.split(" ")[0] for line in path.read_text("utf-8").splitlines()[1:]]
    rows = read(path, words, 5)
    table = np.zeros((len(words), 5), dtype=np.float32)
    read_bin(path.with_suffix(".bin"), words, table, np.zeros(len(words), dtype=bool))
    assert np.allclose(table, list(rows.values()), rtol=1e-4, atol=1e-6)


@pytest.mark.skipif(not SHARED.exists(), reason="needs ../shared/fasttext")
def test_the_beginning_of_an_official_file_is_refused_until_its_header_is_right(tmp_path):
    path = SHARED / "wiki.en.first99.vec"
    with pytest.raises(InputError, match=r"line 100: .* 2519370 rows"):
        read(path, ["the"], 300)
    corrected = tmp_path / "a.vec"
    corrected.write_bytes(path.read_bytes().replace(b"2519370", b"99", 1))
    assert set(read(corrected, ["the", "and", "zebra"], 300)) == {"the", "and"}
