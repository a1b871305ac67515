import gzip
from pathlib import Path

import numpy as np
import pytest

from tinylm.base.config import InputError
from tinylm.embedding import vec_file
from tinylm.embedding.vec_file import check_vec, read_vec

SHARED = Path(__file__).parents[4] / "shared" / "fasttext"


def read(path, words, width=2):
    table, covered = (
        np.zeros((len(words), width), dtype=np.float32),
        np.zeros(len(words), dtype=bool),
    )
    warnings = read_vec(path, words, table, covered)
    assert not table[~covered].any()
    return {words[i]: table[i].tolist() for i in np.flatnonzero(covered)}, warnings


@pytest.fixture
def vec(tmp_path):
    def write(content, name="a.vec"):
        content = content if isinstance(content, bytes) else content.encode()
        path = tmp_path / name
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write


@pytest.mark.parametrize("name", ["a.vec", "a.vec.gz", "A.VEC.GZ"])
def test_rows_of_known_words(vec, name):
    path = vec("4 2\nthe 0.5 -1 \n, 1e-3 2\nother x 1e39\n\u00a0é 1 1\n", name.lower())
    assert read(path, ["the", ",", "cat"]) == ({"the": [0.5, -1], ",": [np.float32(1e-3), 2]}, [])


def test_a_word_in_other_letters_serves_where_the_word_itself_is_missing(vec):
    path = vec("6 2\nParis 1 1\nPARIS 2 2\nRome 3 3\nrome 4 4\nROME 5 5\nthe 6 6\n")
    rows = {"paris": [1, 1], "rome": [4, 4]}
    assert read(path, ["paris", "rome"])[0] == rows
    rows = {"paris": [1, 1], "Rome": [3, 3], "rome": [4, 4], "The": [6, 6], "the": [6, 6]}
    assert read(path, list(rows))[0] == rows
    assert read(path, ["the\u0301", "Pari"])[0] == {}


def test_first_of_equal_words_wins_and_it_is_said(vec):
    rows, warnings = read(vec("4 2\na 1 1\na 2 2\na 3 3\nA 4 4\n"), ["a"])
    assert rows == {"a": [1, 1]}
    assert len(warnings) == 1
    assert "2 rows repeat a word; the first" in warnings[0]


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
        ("2 2\na 1 1_0\n", ", line 2: holds a value that is not finite or not a plain number"),
        (
            "2 2\nother 1 1_0\na 1 1\n",
            ", line 2: holds a value that is not finite or not a plain number",
        ),
        ("2 2\nother nan 1\na 1 1\n", ", line 2: holds a value that is not finite"),
        ("2 2\nother 1 INF\na 1 1\n", ", line 2: holds a value that is not finite"),
        ("2 2\na 1 x\n", ", line 2: could not convert"),
        ("2 2\na 1  1\n", ", line 2: 3 values"),
        ("1 2\na 1 1\nb 2 2\n", ", line 3: a row past the 1 that line 1 promises"),
        (
            "9 2\na 1 1\nb 2 2\n",
            ", line 3: the file ends after 2 of the 9 rows that line 1 promises; allowed: the whole",
        ),
        ("9 2\n", ", line 1: the file ends after 0 of the 9 rows"),
    ],
)
@pytest.mark.parametrize("name", ["a.vec", "a.vec.gz"])
def test_bad_files_are_refused_with_the_line(vec, name, content, message):
    path = vec(content, name)
    with pytest.raises(InputError) as caught:
        read(path, ["a", "b"])
    assert str(caught.value).startswith(f"{path}{message}")


def test_line_without_end(vec, monkeypatch):
    monkeypatch.setattr(vec_file, "MAX_LINE_BYTES", 100)
    with pytest.raises(InputError, match="line 3: longer than 100 bytes"):
        read(vec("2 2\na 1 1\n" + "x" * 1000), ["a"])


def test_damaged_gzip_files_are_refused(vec):
    whole = vec("".join(["99 2\n", *(f"w{row} {row} 0.{row}\n" for row in range(99))]), "a.vec.gz")
    content = whole.read_bytes()
    assert len(read(whole, ["w0", "w98"])[0]) == 2
    for damaged in (
        b"no gzip",
        content[:-9],
        content[:20],
        content[:-8] + b"\0" * 8,
        content[:40] + content[60:],
    ):
        path = whole.with_name("b.vec.gz")
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"b\.vec\.gz.* damaged or truncated gzip file|line"):
            read(path, ["w0", "w98"])
    path.write_bytes(content[:5])
    with pytest.raises(InputError, match=r"b\.vec\.gz: damaged or truncated gzip file"):
        check_vec(path, 2)


def test_check_reads_the_header_alone(vec):
    check_vec(vec("9 2\nnothing else"), 2)
    with pytest.raises(InputError, match=r"line 1: vectors of width 2; embedding\.width = 3"):
        check_vec(vec("9 2\n"), 3)


@pytest.mark.skipif(
    not SHARED.exists(), reason="needs the shared files; their shape is tested above"
)
def test_a_file_of_the_official_program_is_its_binary_twin_rounded():
    path = SHARED / "crime-and-punishment.vec"
    words = [line.split(" ")[0] for line in path.read_text("utf-8").splitlines()[1:]]
    rows, warnings = read(path, words, 5)
    assert (list(rows), warnings) == (words, [])
    from tinylm.embedding.fasttext_bin import read_bin

    table, covered = np.zeros((len(words), 5), dtype=np.float32), np.zeros(len(words), dtype=bool)
    read_bin(path.with_suffix(".bin"), words, table, covered)
    assert np.allclose(table, list(rows.values()), rtol=1e-4, atol=1e-6)


@pytest.mark.skipif(
    not SHARED.exists(), reason="needs the shared files; their shape is tested above"
)
def test_the_head_of_an_official_file_is_refused_until_its_header_says_so(tmp_path):
    path = SHARED / "wiki.en.first99.vec"
    with pytest.raises(InputError, match="line 100: the file ends after 99 of the 2519370 rows"):
        read(path, ["the"], 300)
    mended = tmp_path / "a.vec"
    mended.write_bytes(path.read_bytes().replace(b"2519370", b"99", 1))
    rows, _ = read(mended, ["the", "and", "zebra"], 300)
    assert set(rows) == {"the", "and"}
    line = next(line for line in path.read_text("utf-8").splitlines() if line.startswith("the "))
    assert rows["the"] == [float(np.float32(value)) for value in line.split()[1:]]
