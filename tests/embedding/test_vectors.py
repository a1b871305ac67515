import dataclasses
import struct
from collections import Counter

import numpy as np
import pytest
from safetensors.numpy import save_file

from tinylm.base.config import InputError, read_section
from tinylm.embedding.matrix import embedding_matrix
from tinylm.embedding.skipgram import EmbeddingSettings, train_skipgram
from tinylm.embedding.source import read_vectors
from tinylm.vocab.matrix_file import load_matrix, save_matrix
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.tokenizer import make_tokenizer
from tinylm.vocab.words import SPECIALS, build_tokenizer, count_words

SETTINGS = EmbeddingSettings(
    source="skipgram",
    path="",
    hub_id=None,
    hub_revision=None,
    width=12,
    epochs=2,
    window=3,
    min_n=3,
    max_n=4,
    buckets=500,
    lr=0.05,
    std=0.02,
    seed=1,
)
RULE = VocabSettings(tokenizer="words")
TEXTS = [
    "The cat sat on the mat.",
    "A dog sat on a log, the dog and the cat!",
    "Cats and dogs.",
] * 30


def tokenizer():
    return build_tokenizer(count_words(TEXTS, RULE), RULE)


def made_for(settings, tok, texts):
    ids = [index for text in texts for index in tok.encode_story(text)]
    return embedding_matrix(settings, tok, lambda: texts, lambda: np.array(ids))


def matrix(**changes):
    return made_for(dataclasses.replace(SETTINGS, **changes), tokenizer(), TEXTS)


def dirty_the_heap():
    arrays = [
        np.full(size, 7.5, dtype=np.float32) for size in (30, 300, 3000, 6500, 30_000, 300_000)
    ]
    del arrays


def test_skipgram_twice_gives_equal_bytes():
    first, info = matrix()
    for _ in range(3):
        dirty_the_heap()  # fastText reads memory that it never wrote
        assert matrix()[0].tobytes() == first.tobytes()
    assert matrix(seed=2)[0][len(SPECIALS) :].tobytes() != first[len(SPECIALS) :].tobytes()
    assert first.dtype == np.float32
    assert np.isfinite(first).all()
    words = len(tokenizer()) - len(SPECIALS)
    assert (info["words"], info["covered"], info["coverage"]) == (words, words, 1.0)


def test_skipgram_trains_on_normalised_words():
    raw = matrix()[0]
    normalised = [tokenizer().normalise(text) for text in TEXTS]
    assert np.array_equal(raw, made_for(SETTINGS, tokenizer(), normalised)[0])


def test_unseen_word_has_the_vector_of_its_parts_or_none():
    vectors = train_skipgram(TEXTS, ["catty", "Q"], SETTINGS)
    assert vectors[0].any()
    assert not train_skipgram(
        TEXTS, ["catty"], dataclasses.replace(SETTINGS, min_n=0, max_n=0)
    ).any()


def test_divergence_is_refused():
    with pytest.raises(InputError, match=r"embedding\.lr = 10"):
        train_skipgram(
            [f"{text} " * 20 for text in TEXTS],
            ["the"],
            dataclasses.replace(SETTINGS, lr=10.0, epochs=200),
        )


@pytest.mark.parametrize("source", ["skipgram", "random"])
def test_pad_is_zero_and_the_other_special_tokens_are_not(source):
    tok = tokenizer()
    vectors, _ = matrix(source=source)
    assert not vectors[tok.pad_id].any()
    for index in (tok.sos_id, tok.eos_id, tok.unk_id):
        assert vectors[index].any()
    assert len({row.tobytes() for row in vectors}) == len(tok)


@pytest.mark.parametrize("std", [0.02, 1.0])
def test_random_matrix(std):
    vectors, info = matrix(source="random", width=4000, std=std)
    assert vectors[4:].std() == pytest.approx(std, rel=0.02)
    assert np.array_equal(vectors, matrix(source="random", width=4000, std=std)[0])
    assert not np.array_equal(vectors, matrix(source="random", width=4000, std=std, seed=2)[0])
    assert "coverage" not in info
    assert info["words"] == len(tokenizer()) - len(SPECIALS)


def test_file_rows_and_rows_of_the_same_scale_for_the_rest(tmp_path):
    width = 500
    rng = np.random.default_rng(0)
    rows = {"the": rng.normal(0, 3.0, width), "cat": rng.normal(0, 3.0, width)}
    path = tmp_path / "a.vec"
    path.write_text(
        f"2 {width}\n"
        + "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in rows.items())
    )
    vectors, info = matrix(source="file", path=str(path), width=width)
    tok = tokenizer()
    for word, row in rows.items():
        assert np.array_equal(vectors[tok.id_of(word)], row.astype(np.float32))
    assert vectors[tok.id_of("dog")].std() == pytest.approx(3.0, rel=0.1)
    assert vectors[tok.unk_id].std() == pytest.approx(3.0, rel=0.1)
    assert not vectors[tok.pad_id].any()
    assert (info["covered"], info["words"]) == (2, len(tok) - 4)
    assert info["coverage"] == 2 / (len(tok) - 4)
    assert info["warnings"] == []


def test_words_that_a_binary_lacks_have_the_vector_of_their_parts(train_bin):
    path = train_bin(bucket=50, minn=3, maxn=3)
    vectors, info = matrix(source="file", path=str(path), width=7)
    tok = tokenizer()
    held = {"the", "cat", "sat", "on", "mat", "a", "dog", "log", "cats", "and"}
    words = [tok.tokens[index] for index in range(len(SPECIALS), len(tok))]
    table, *_ = read_vectors(path, words, 7)
    assert vectors[len(SPECIALS) :].tobytes() == table.tobytes()
    assert held < set(words)
    assert (info["covered"], info["coverage"], info["from_subwords"]) == (
        len(words),
        1.0,
        len(words) - len(held),
    )


class Pieces:
    """A vocabulary in which one id has every role, and two tokens are the same word."""

    tokens = ("!", "the", " the", "\ufffd", " cat", "<|end|>")
    specials = frozenset({5})
    sos_id = eos_id = pad_id = 5
    unk_id = None

    def __len__(self):
        return len(self.tokens)

    def word_of(self, index):
        return "" if index in (3, 5) else self.tokens[index].strip()


@pytest.mark.parametrize("pad", [0, 5])
def test_tokens_of_one_word_share_its_row_and_no_role_is_zeroed(tmp_path, pad):
    (tmp_path / "a.vec").write_text("4 3\nthe 1 2 3\ncat 4 5 6\n! 7 8 9\n\ufffd 9 9 9\n")
    settings = dataclasses.replace(SETTINGS, source="file", path=str(tmp_path / "a.vec"), width=3)
    pieces = Pieces()
    pieces.pad_id = pad
    vectors, info = embedding_matrix(settings, pieces, list, list)
    assert vectors[[0, 1, 2, 4]].tolist() == [[7, 8, 9], [1, 2, 3], [1, 2, 3], [4, 5, 6]]
    assert vectors[[3, 5]].all()
    assert vectors[3].tolist() != [9, 9, 9]
    assert (info["words"], info["covered"], info["coverage"]) == (5, 4, 0.8)


@pytest.mark.parametrize(("name", "size"), [("words", None), ("bpe", 300), ("longest_match", 40)])
@pytest.mark.parametrize("source", ["skipgram", "counts", "random", "file"])
def test_every_tokenizer_gets_a_matrix(train_bin, name, size, source):
    rule = dataclasses.replace(RULE, tokenizer=name, max_size=size)
    made, _ = make_tokenizer(rule, lambda: TEXTS)
    path = str(train_bin(minn=1, maxn=3)) if source == "file" else ""
    settings = dataclasses.replace(SETTINGS, source=source, width=7, path=path, min_n=0, max_n=0)
    vectors, info = made_for(settings, made, TEXTS)
    assert vectors.shape == (len(made), 7)
    assert info["words"] == len(made) - len(made.specials)
    if source in ("skipgram", "counts"):
        used = {index for text in TEXTS for index in made.encode(text)} - made.specials
        assert info["covered"] == len(used)


@pytest.mark.parametrize("name", ["bpe", "longest_match"])
def test_tokens_that_no_text_holds_are_not_covered_by_their_parts(name):
    rule = dataclasses.replace(
        RULE, tokenizer=name, max_size={"bpe": 300, "longest_match": 40}[name]
    )
    made, _ = make_tokenizer(rule, lambda: TEXTS)
    short = ["The cat sat"] * 30
    _, info = made_for(dataclasses.replace(SETTINGS, min_n=1, max_n=3), made, short)
    assert info["covered"] == len(set(made.encode(short[0])) - made.specials) < info["words"] / 2


def test_zeros_in_a_file_leave_the_others_at_the_settings_scale(tmp_path):
    (tmp_path / "a.vec").write_text("1 4000\nthe" + " 0" * 4000 + "\n")
    vectors, _ = matrix(source="file", path=str(tmp_path / "a.vec"), width=4000, std=0.5)
    assert vectors[tokenizer().unk_id].std() == pytest.approx(0.5, rel=0.1)


def test_settings_are_checked_between_each_other():
    section = dataclasses.asdict(SETTINGS) | {"min_n": 5}
    with pytest.raises(InputError, match=r"embedding\.min_n = 5; allowed: at most max_n = 4"):
        read_section({"embedding": section}, "embedding", EmbeddingSettings)


def test_save_and_load(tmp_path):
    vectors = np.arange(12, dtype=np.float32).reshape(4, 3)
    for name in ("one", "two"):
        save_matrix(tmp_path / name, vectors[:, ::-1])
    assert np.array_equal(load_matrix(tmp_path / "one"), vectors[:, ::-1])
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    with pytest.raises(InputError, match="run dvc repro vocab"):
        load_matrix(tmp_path / "none")


def lie_about_shape(content):
    return content.replace(b'"shape":[4,3]', b'"shape":[4,9]')


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-4], lambda content: content[:20], lambda content: b"",
        lambda content: struct.pack("<Q", 1 << 63) + content[8:],
        lambda content: content[:-1] + bytes([content[-1] ^ 1]), lie_about_shape,
        lambda content: content + b"\0" * 8
    ],
)  # fmt: skip
def test_damaged_matrix_is_refused(tmp_path, damage):
    path = tmp_path / "embedding.safetensors"
    save_matrix(path, np.ones((4, 3), dtype=np.float32))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=r"embedding\.safetensors: .* -s vocab"):
        load_matrix(path)


ONES = np.ones((4, 3), dtype=np.float32)


@pytest.mark.parametrize(
    "tensors",
    [
        {"embedding": ONES, "extra": ONES}, {"other": ONES}, {"embedding": ONES.astype(np.float16)},
        {"embedding": ONES[0]}, {"embedding": ONES}
    ],
    ids=["extra", "missing", "fp16", "one axis", "no checksum"],
)  # fmt: skip
def test_other_tensors_are_refused(tmp_path, tensors):
    save_file(tensors, str(tmp_path / "a.safetensors"))
    with pytest.raises(InputError, match=r"a\.safetensors"):
        load_matrix(tmp_path / "a.safetensors")


def test_values_that_are_not_finite_are_refused(tmp_path):
    save_matrix(tmp_path / "a.safetensors", np.array([[1.0, np.nan]]))
    with pytest.raises(InputError, match="not finite"):
        load_matrix(tmp_path / "a.safetensors")


def test_vocabulary_of_file_words_only_needs_those(tmp_path):
    (tmp_path / "a.vec").write_text("1 12\nzebra" + " 1" * 12 + "\n")
    tok = build_tokenizer(Counter({"the": 1}), RULE)
    settings = dataclasses.replace(SETTINGS, source="file", path=str(tmp_path / "a.vec"))
    with pytest.raises(InputError, match="has none of the vocabulary's 1 words"):
        embedding_matrix(settings, tok, list, list)
