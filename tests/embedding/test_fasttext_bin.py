import struct
from pathlib import Path

import numpy as np
import pytest

from tinylm.base.config import InputError
from tinylm.embedding import fasttext_bin
from tinylm.embedding.fasttext_bin import check_bin, read_bin, subword_buckets

SHARED = Path(__file__).parents[4] / "shared" / "fasttext"
KNOWN = ["the", "cat", "naïve", "привет", "日本語", "😀", "a", "é", "dogs,", "</s>"]
UNKNOWN = ["catty", "приветы", "本", "e", "ü", "<cat>", "😀😀", "<", "x" * 90]
WORDS = KNOWN + UNKNOWN
ENTRIES_AT = 92  # offset of the dictionary's first word
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
    table, covered = (
        np.zeros((len(words), width), dtype=np.float32),
        np.zeros(len(words), dtype=bool),
    )
    composed, warnings = read_bin(path, words, table, covered)
    assert not table[~covered].any()
    return table, covered, composed, warnings


def fasttexts_own(path, words=WORDS):
    import fasttext

    model = fasttext.load_model(str(path))
    return np.stack([model.get_word_vector(word) for word in words])


def dictionary_end(path):
    with open(path, "rb") as handle:
        header = fasttext_bin._read_header(handle, path)
        fasttext_bin._find_rows(handle, path, header, {})
        return header, handle.tell()


def as_the_oldest_files(path):
    """The same model without magic number, version, pruning and flags of quantisation."""
    header, end = dictionary_end(path)
    content = path.read_bytes()
    inputs = 16 + 4 * header.width * (header.words + header.buckets)
    parts = [
        content[8 : ENTRIES_AT - 8],
        content[ENTRIES_AT:end],
        content[end + 1 : end + 1 + inputs],
    ]
    old = path.with_name("old.bin")
    old.write_bytes(b"".join([*parts, content[end + 2 + inputs :]]))
    return old


@pytest.mark.parametrize("version", [11, 12])
@pytest.mark.parametrize("kind", KINDS)
def test_vectors_equal_fasttexts_own_to_the_bit(train_bin, kind, version):
    path = train_bin(version=version, **KINDS[kind])
    own = fasttexts_own(path)
    table, covered, composed, warnings = read(path, width=own.shape[1])
    assert table.tobytes() == own.tobytes()
    assert table.any()
    assert covered[: len(KNOWN)].all()
    assert composed == covered[len(KNOWN) :].sum()
    assert warnings == []


def test_words_of_a_file_without_n_grams_are_covered_and_no_others(train_bin):
    _, covered, composed, _ = read(train_bin(**KINDS["no n-grams"]))
    assert covered.tolist() == [True] * len(KNOWN) + [False] * len(UNKNOWN)
    assert composed == 0


@pytest.mark.parametrize("kind", ["skipgram", "cbow", "no n-grams"])
def test_the_oldest_format_has_the_same_vectors(train_bin, kind):
    path = train_bin(**KINDS[kind])
    assert read(as_the_oldest_files(path))[0].tobytes() == read(path)[0].tobytes()


def test_the_oldest_supervised_files_are_read_as_version_11(train_bin):
    path = train_bin(version=11, **KINDS["supervised, n-grams"])
    assert read(as_the_oldest_files(path))[0].tobytes() == fasttexts_own(path).tobytes()


def test_subwords_by_hand():
    hashes = {"<a": 0, "ab": 1, "b>": 2, "a": 3, "b": 4}
    for text in hashes:
        value = 2166136261
        for byte in text.encode():
            value = (value ^ byte) * 16777619 % 2**32
        hashes[text] = value
    assert subword_buckets("ab", 1, 2, 2**32) == [
        hashes[text] for text in ("<a", "a", "ab", "b", "b>")
    ]
    assert subword_buckets("ab", 2, 2, 10) == [hashes[text] % 10 for text in ("<a", "ab", "b>")]
    assert subword_buckets("</s>", 1, 9, 10) == []
    assert len(subword_buckets("日本", 2, 2, 10)) == 3


@pytest.mark.parametrize(
    ("name", "value"), [("CHUNK", 64), ("CHUNK", 200), ("BLOCK", 1), ("BLOCK", 7 * 4 * 40)]
)
def test_no_size_of_chunk_or_block_changes_a_vector(train_bin, monkeypatch, name, value):
    path = train_bin()
    whole = read(path)[0].tobytes()
    monkeypatch.setattr(fasttext_bin, name, value)
    assert read(path)[0].tobytes() == whole


def test_only_the_rows_that_are_needed_are_fetched_each_once(train_bin, monkeypatch):
    fetched = []
    pread = fasttext_bin.os.preadv
    monkeypatch.setattr(
        fasttext_bin.os, "preadv", lambda fd, into, at: fetched.append(at) or pread(fd, into, at)
    )
    read(train_bin(bucket=100_000, minn=3, maxn=3), ["the", "then"])
    assert len(fetched) == 1 + len({"<th", "the", "he>", "hen", "en>"})
    assert fetched == sorted(fetched)


def rename(path, old, new):
    """The dictionary with one word for another of the same length."""
    content = path.read_bytes()
    assert content.count(old.encode() + b"\0") == 1
    path.write_bytes(content.replace(old.encode() + b"\0", new.encode() + b"\0"))


def test_the_last_of_equal_words_counts_as_in_fasttext_and_it_is_said(train_bin):
    path = train_bin()
    rename(path, "mat", "cat")
    table, _, _, warnings = read(path)
    assert table.tobytes() == fasttexts_own(path).tobytes()
    assert warnings == [f"{path}: 1 words stand there again; the last of each is used"]


def test_words_that_are_no_utf8_stand_in_nobodys_way(train_bin):
    path = train_bin()
    content = path.read_bytes()
    path.write_bytes(content.replace(b"mat\0", b"m\x97t\0"))
    table, *_ = read(path, ["the", "m\ufffdt"])
    assert table[0].any()
    assert not np.array_equal(table[1], read(path, ["mat"])[0][0])


def tiny(train_bin, supervised=False):
    path = train_bin(dim=2, bucket=3, minn=3, maxn=3, supervised=supervised, repeats=1)
    return path, path.read_bytes()


@pytest.mark.parametrize("supervised", [False, True])
def test_a_file_cut_anywhere_is_refused(train_bin, supervised):
    path, content = tiny(train_bin, supervised)
    assert len(read(path, ["the"], 2)[0]) == 1
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(InputError, match=r"a\.bin") as caught:
            check_bin(path, 2)
        assert "\n" not in str(caught.value)


def test_a_file_that_goes_on_is_refused(train_bin):
    path, content = tiny(train_bin)
    path.write_bytes(content + b"\0")
    with pytest.raises(
        InputError, match=f"{len(content) + 1} bytes; its header promises {len(content)}"
    ):
        check_bin(path, 2)


def outcome(path, width):
    """The vectors of two words, or the message of the refusal."""
    try:
        return read(path, ["the", "catty"], width)[0]
    except InputError as error:
        return str(error)


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_flipped_byte_is_refused_or_gives_finite_vectors(train_bin, flip):
    path, content = tiny(train_bin)
    refused = 0
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ flip]) + content[place + 1 :])
        found = outcome(path, 2)
        if isinstance(found, str):
            refused += 1
            assert str(path) in found
        else:
            assert found.shape == (2, 2)
            assert np.isfinite(found).all()
    assert (
        refused > 40
    )  # magic number, version, width, model, buckets and the dictionary's numbers at the least


NUMBERS = {
    "version": 4,
    "width": 8,
    "model": 8 + 28,
    "buckets": 8 + 32,
    "min_n": 44,
    "max_n": 48,
    "entries": 64,
}


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("version", 10, r"byte 4: version 10; allowed: 11 and 12"),
        ("version", 13, r"byte 4: version 13; allowed: 11 and 12"),
        ("width", 3, r"vectors of width 3; embedding.width = 2"),
        ("width", 0, r"a damaged header \(width 0,"),
        ("width", 2**31 - 1, r"a damaged header \(width 2147483647,"),
        ("model", 4, r"a damaged header"),
        ("buckets", -1, r"a damaged header .*buckets -1"),
        ("buckets", 0, r"n-grams of up to 3 characters in 0 buckets"),
        ("buckets", 4, r"a matrix of \d+ x 2; its header says"),
        ("min_n", -1, r"a damaged header"),
        ("max_n", -1, r"a damaged header"),
        ("entries", 2**31 - 1, r"a damaged header"),
        ("words", 2**31 - 1, r"a damaged header"),
        ("words", 0, r"a damaged header"),
        ("pruned", 0, r"a pruned dictionary, as only quantised models have"),
        ("pruned", 7, r"a pruned dictionary"),
        ("magic", 1, r"neither fastText's magic number nor the header of its oldest files"),
    ],
)
def test_lies_of_the_header_are_refused(train_bin, place, value, message):
    path, content = tiny(train_bin)
    at = NUMBERS | {"magic": 0, "words": 68, "pruned": ENTRIES_AT - 8}
    form = "<q" if place == "pruned" else "<i"
    lie = struct.pack(form, value)
    path.write_bytes(content[: at[place]] + lie + content[at[place] + len(lie) :])
    with pytest.raises(InputError, match=message):
        check_bin(path, 2)


def test_a_lie_in_both_counts_of_words_is_refused(train_bin):
    path, content = tiny(train_bin)
    too_many, no_entry, too_few = 1 << 30, (len(content) - ENTRIES_AT) // 11, 3
    for words, message in (
        (too_many, "a damaged header"),
        (no_entry, "not a dictionary entry"),
        (too_few, "a matrix of"),
    ):
        path.write_bytes(content[:64] + struct.pack("<ii", words, words) + content[72:])
        with pytest.raises(InputError, match=message):
            check_bin(path, 2)


def test_quantised_models_are_refused_with_the_reason(train_bin, tmp_path):
    import fasttext

    path = train_bin(supervised=True, minn=3, maxn=3, bucket=300)
    model = fasttext.load_model(str(path))
    for cutoff in (0, 280):
        model.quantize(input=str(tmp_path / "a.txt"), cutoff=cutoff, retrain=False)
        model.save_model(str(tmp_path / "a.ftz"))
        with pytest.raises(InputError, match="quantised model"):
            check_bin(tmp_path / "a.ftz", 7)
        model = fasttext.load_model(str(path))


def test_values_that_are_not_finite_are_refused(train_bin):
    path = train_bin(minn=0, maxn=0)
    header, end = dictionary_end(path)
    content = bytearray(path.read_bytes())
    content[end + 17 : end + 21] = struct.pack("<f", float("nan"))
    path.write_bytes(content)
    first = content[ENTRIES_AT : content.index(b"\0", ENTRIES_AT)].decode()
    assert header.words > 1
    with pytest.raises(InputError, match=f"the vector of '{first}' is not finite"):
        read(path, [first])


@pytest.mark.parametrize(
    "content", [b"", b"\xba\x16", b"2 3\na 1 2 3\nb 1 2 3\n" * 40, b"\0" * 999, b"\xff" * 999]
)
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "a.bin"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.bin: "):
        check_bin(path, 3)


@pytest.mark.skipif(
    not SHARED.exists(), reason="needs the shared files; trained ones are tested above"
)
@pytest.mark.parametrize(
    ("name", "width"),
    [("crime-and-punishment", 5), ("lee_fasttext_new", 10), ("pang_lee_polarity_fasttext", 100)],
)
def test_files_of_others_equal_fasttexts_own(name, width):
    path = SHARED / f"{name}.bin"
    with open(path, "rb") as handle:
        header = fasttext_bin._read_header(handle, path)
        handle.seek(header.entries)
        held = [
            word for part in fasttext_bin._entries(handle, path, header.words, 0) for word in part
        ]
    assert len(held) == header.words
    texts = [word.decode("utf-8", "ignore") for word in held]  # some of these files hold Latin-1
    words = list(dict.fromkeys([*WORDS, *texts]))
    assert read(path, words, width)[0].tobytes() == fasttexts_own(path, words).tobytes()


@pytest.mark.skipif(
    not SHARED.exists(),
    reason="needs the shared files; files brought to the old form are tested above",
)
def test_a_file_of_the_oldest_format_equals_itself_in_the_newer_form(tmp_path):
    path = SHARED / "lee_fasttext.bin"
    header, end = dictionary_end(path)
    content = path.read_bytes()
    inputs = 16 + 4 * header.width * (header.words + header.buckets)
    flagged = b"\0" + content[end : end + inputs] + b"\0" + content[end + inputs :]
    head = struct.pack("<ii", 793712314, 11) + content[: header.entries] + struct.pack("<q", -1)
    newer = tmp_path / "newer.bin"
    newer.write_bytes(head + content[header.entries : end] + flagged)
    assert read(path, WORDS, 10)[0].tobytes() == fasttexts_own(newer).tobytes()
