"""`.bin` files: vectors equal fastText's own to the bit; damaged and other files are refused."""

from pathlib import Path

import numpy as np
import pytest

from tinylm.base.config import InputError
from tinylm.embedding.fasttext_bin import check_bin, read_bin, subword_buckets

SHARED = Path(__file__).parents[3] / "shared" / "fasttext"
IN_FILE = ["the", "cat", "naïve", "привет", "日本語", "😀", "a", "é", "dogs,", "</s>"]
OTHERS = ["catty", "приветы", "本", "e", "ü", "<cat>", "😀😀", "<", "x" * 90]
WORDS = IN_FILE + OTHERS
KINDS = {
    "skipgram": {"minn": 3, "maxn": 6},
    "cbow": {"model": "cbow", "minn": 1, "maxn": 2},
    "shortest and longest": {"minn": 0, "maxn": 20},
    "no n-grams": {"minn": 0, "maxn": 0},
    "no n-gram is that long": {"minn": 5, "maxn": 4},
    "hierarchical softmax": {"loss": "hs", "minn": 2, "maxn": 3},
    "width 1": {"dim": 1, "minn": 1, "maxn": 9},
    "supervised": {"supervised": True},
    "supervised, n-grams": {"supervised": True, "minn": 2, "maxn": 4, "wordNgrams": 2},
}


def read(path, words=WORDS, width=7):
    table = np.zeros((len(words), width), dtype=np.float32)
    covered = np.zeros(len(words), dtype=bool)
    from_subwords = read_bin(path, words, table, covered)
    assert not table[~covered].any()
    return table, covered, from_subwords


def read_by_fasttext(path, words=WORDS):
    import fasttext

    model = fasttext.load_model(str(path))
    return np.stack([model.get_word_vector(word) for word in words])


def words_of_file(path):
    import fasttext

    return fasttext.load_model(str(path)).get_words()


@pytest.mark.parametrize("version", [11, 12])
@pytest.mark.parametrize("kind", KINDS)
def test_vectors_equal_fasttexts_own_to_the_bit(train_bin, kind, version):
    path = train_bin(version=version, **KINDS[kind])
    expected = read_by_fasttext(path)
    table, covered, from_subwords = read(path, width=expected.shape[1])
    assert table.tobytes() == expected.tobytes()
    assert table.any()
    assert covered[: len(IN_FILE)].all()
    assert from_subwords == covered[len(IN_FILE) :].sum()


def test_without_n_grams_only_the_files_words_are_covered(train_bin):
    _, covered, from_subwords = read(train_bin(**KINDS["no n-grams"]))
    assert covered.tolist() == [True] * len(IN_FILE) + [False] * len(OTHERS)
    assert from_subwords == 0


def test_the_last_of_equal_words_counts_as_in_fasttext(train_bin):
    path = train_bin()
    path.write_bytes(path.read_bytes().replace(b"mat\0", b"cat\0"))
    assert read(path)[0].tobytes() == read_by_fasttext(path).tobytes()


def test_subwords_by_hand():
    hashes = {}
    for text in ("<a", "ab", "b>", "a", "b"):
        value = 2166136261
        for byte in text.encode():
            value = (value ^ byte) * 16777619 % 2**32
        hashes[text] = value
    in_order = [hashes[text] for text in ("<a", "a", "ab", "b", "b>")]
    assert subword_buckets("ab", 1, 2, 2**32) == in_order
    assert subword_buckets("ab", 2, 2, 10) == [hashes[text] % 10 for text in ("<a", "ab", "b>")]
    assert subword_buckets("</s>", 1, 9, 10) == []
    assert len(subword_buckets("日本", 2, 2, 10)) == 3


def test_a_file_that_ends_before_its_output_matrix_is_refused(train_bin):
    path = train_bin(dim=2, bucket=3, minn=3, maxn=3, repeats=1)
    content = path.read_bytes()
    output_matrix = 17 + 4 * 2 * len(words_of_file(path))
    for length in range(len(content) - output_matrix):
        path.write_bytes(content[:length])
        with pytest.raises(InputError, match=r"a\.bin") as caught:
            check_bin(path, 2)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_flipped_byte_is_refused_or_gives_finite_vectors(train_bin, flip):
    path = train_bin(dim=2, bucket=3, minn=3, maxn=3, repeats=1)
    content = path.read_bytes()
    refused = 0
    for i in range(len(content)):
        path.write_bytes(content[:i] + bytes([content[i] ^ flip]) + content[i + 1 :])
        try:
            table, _, _ = read(path, ["the", "catty"], 2)
        except InputError:
            refused += 1
        else:
            assert np.isfinite(table).all()
    assert refused > 30  # magic number, version, width, buckets and the dictionary's numbers


def test_another_width_and_quantised_models_are_refused(train_bin, tmp_path):
    import fasttext

    path = train_bin(supervised=True, minn=3, maxn=3, bucket=300)
    with pytest.raises(InputError, match=r"embedding\.width = 8"):
        check_bin(path, 8)
    model = fasttext.load_model(str(path))
    model.quantize(input=str(tmp_path / "a.txt"), cutoff=280, retrain=False)
    model.save_model(str(tmp_path / "a.ftz"))
    with pytest.raises(InputError, match="quantised"):
        check_bin(tmp_path / "a.ftz", 7)


@pytest.mark.parametrize("content", [b"", b"\xba\x16", b"2 3\na 1 2 3\n" * 40, b"\xff" * 999])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "a.bin"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.bin: "):
        check_bin(path, 3)


@pytest.mark.skipif(not SHARED.exists(), reason="needs ../shared/fasttext")
@pytest.mark.parametrize(
    ("name", "width"),
    [("crime-and-punishment", 5), ("lee_fasttext_new", 10), ("pang_lee_polarity_fasttext", 100)],
)
def test_files_of_others_equal_fasttexts_own(name, width):
    path = SHARED / f"{name}.bin"
    assert read(path, WORDS, width)[0].tobytes() == read_by_fasttext(path).tobytes()
