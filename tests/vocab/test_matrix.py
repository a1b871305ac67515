"""The embedding matrix of each source, for each tokenizer."""

import dataclasses
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.support.small import words_of
from tinylm.base.config import InputError, read_section
from tinylm.vocab.embedding import counts, skipgram
from tinylm.vocab.embedding import matrix as embedding
from tinylm.vocab.embedding.counts import (
    count_pairs,
    count_vectors,
    left_vectors,
    positive_information,
)
from tinylm.vocab.embedding.matrix import embedding_matrix
from tinylm.vocab.embedding.matrix_file import load_matrix, save_matrix
from tinylm.vocab.embedding.settings import EmbeddingSettings
from tinylm.vocab.embedding.skipgram import train_skipgram
from tinylm.vocab.make_tokenizer import make_tokenizer
from tinylm.vocab.settings import VocabSettings

replace = dataclasses.replace
SETTINGS = EmbeddingSettings(source="skipgram", path="", hub=None, width=12, std=0.02)
RULE = VocabSettings(tokenizer="words")
TEXTS = [
    "The cat sat on the mat.",
    "A dog sat on a log, the dog and the cat!",
    "Cats and dogs.",
] * 30
TOKENIZERS = {
    name: make_tokenizer(replace(RULE, tokenizer=name, max_size=size), lambda: TEXTS)[0]
    for name, size in (("words", None), ("bpe", 300), ("longest_match", 40))
}
WORDS = TOKENIZERS["words"]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    for name, value in {"EPOCHS": 2, "MAX_N": 4, "BUCKETS": 500}.items():
        monkeypatch.setattr(skipgram, name, value)


@pytest.fixture
def no_ngrams(monkeypatch):
    monkeypatch.setattr(skipgram, "MIN_N", 0)
    monkeypatch.setattr(skipgram, "MAX_N", 0)


def matrix(tokenizer=WORDS, texts=TEXTS, seed=1, **changes):
    ids = [index for text in texts for index in tokenizer.encode_story(text)]
    settings = replace(SETTINGS, **changes)
    return embedding_matrix(settings, tokenizer, lambda: texts, lambda: np.array(ids), seed)


def test_skipgram_twice_gives_equal_bytes():
    first, info = matrix()
    for size in (300, 6500, 300_000):
        np.full(size, 7.5, dtype=np.float32)  # fastText reads memory that it never wrote
        assert matrix()[0].tobytes() == first.tobytes()
    assert matrix(seed=2)[0][4:].tobytes() != first[4:].tobytes()
    assert np.isfinite(first).all()
    assert info["covered"] == info["words"] == len(WORDS) - 4


@pytest.mark.parametrize(("source", "part"), [("skipgram", TEXTS[::3]), ("counts", TEXTS[:30])])
def test_vectors_are_made_from_a_bounded_part_of_a_large_split(monkeypatch, source, part):
    expected, info = matrix(texts=part, source=source)
    assert info["read"] == 1
    monkeypatch.setattr(embedding, "MAX_TOKENS", 260)  # of 780
    sampled, info = matrix(source=source)
    assert np.array_equal(sampled, expected)
    assert info["read"] == pytest.approx(1 / 3)


def test_an_unseen_word_has_the_vector_of_its_parts():
    assert train_skipgram(TEXTS, ["catty"], 12).any()


def test_without_parts_an_unseen_word_has_no_vector(no_ngrams):
    assert not train_skipgram(TEXTS, ["catty"], 12).any()


def test_a_word_that_looks_like_a_label_of_fasttext_is_trained(no_ngrams):
    texts = [f"{text} __label__x" for text in TEXTS]
    plain = train_skipgram([text.replace("__label__x", "zzz") for text in texts], ["zzz"], 12)
    assert np.array_equal(train_skipgram(texts, ["__label__x"], 12), plain)


def test_divergence_is_refused(monkeypatch):
    monkeypatch.setattr(skipgram, "LR", 10.0)
    monkeypatch.setattr(skipgram, "EPOCHS", 200)
    texts = [f"{text} " * 20 for text in TEXTS]
    with pytest.raises(InputError, match="skipgram"):
        train_skipgram(texts, ["the"], 12)


def test_a_fasttext_that_scales_vectors_to_length_1_is_refused(monkeypatch):
    """A stand-in for fasttext-community, whose modules have the same names."""
    import fasttext_pybind

    class UnitVectors(fasttext_pybind.fasttext):
        def getWordVector(self, vector, word):
            super().getWordVector(vector, word)
            values = np.asarray(vector)  # shares the vector's memory
            values /= np.linalg.norm(values)

    contents = vars(fasttext_pybind) | {"fasttext": UnitVectors}
    monkeypatch.setitem(sys.modules, "fasttext_pybind", SimpleNamespace(**contents))
    with pytest.raises(InputError, match=r"expected .*fasttext-modern.*, got .* length 1"):
        matrix()
    assert matrix(source="counts")[1]["covered"]


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("source", ["skipgram", "counts", "random", "file"])
def test_every_tokenizer_gets_a_matrix(train_bin, name, source, no_ngrams):
    tokenizer = TOKENIZERS[name]
    path = str(train_bin(minn=1, maxn=3)) if source == "file" else ""
    vectors, info = matrix(tokenizer, source=source, width=7, path=path)
    assert vectors.shape == (len(tokenizer), 7)
    assert len({row.tobytes() for row in vectors}) > len(tokenizer) - 10
    assert info["words"] == len(tokenizer) - len(tokenizer.specials)
    if tokenizer.pad_id in tokenizer.specials:
        assert not vectors[tokenizer.pad_id].any()
        assert vectors[tokenizer.sos_id].any()
    if source in ("skipgram", "counts"):
        used = {index for text in TEXTS for index in tokenizer.encode(text)}
        assert info["covered"] == len(used - tokenizer.specials)


@pytest.mark.parametrize("std", [0.02, 1.0])
def test_random_matrix(std):
    vectors, info = matrix(source="random", width=4000, std=std)
    assert vectors[4:].std() == pytest.approx(std, rel=0.02)
    assert np.array_equal(vectors, matrix(source="random", width=4000, std=std)[0])
    assert not np.array_equal(vectors, matrix(source="random", width=4000, std=std, seed=2)[0])
    assert "coverage" not in info


def test_rows_of_a_file_and_rows_of_the_same_scale_for_the_rest(tmp_path):
    rows = np.random.default_rng(0).normal(0, 3.0, (2, 500)).astype(np.float32)
    the, cat = (" ".join(map(str, row)) for row in rows)
    (tmp_path / "a.vec").write_text(f"2 500\nthe {the}\ncat {cat}\n")
    vectors, info = matrix(source="file", path=str(tmp_path / "a.vec"), width=500)
    assert np.array_equal(vectors[[WORDS.tokens.index("the"), WORDS.tokens.index("cat")]], rows)
    for index in (WORDS.tokens.index("dog"), WORDS.unk_id):
        assert vectors[index].std() == pytest.approx(3.0, rel=0.1)
    assert (info["covered"], info["coverage"]) == (2, 2 / (len(WORDS) - 4))


def test_composed_vectors_do_not_count_as_words_of_the_file(train_bin):
    words = words_of(["the cat sat and catty prowls"])
    settings = replace(SETTINGS, source="file", path=str(train_bin()), width=7)
    _, info = embedding_matrix(settings, words, list, list)
    assert (info["words"], info["covered"], info["composed"]) == (6, 4, 2)
    settings = replace(settings, path=str(train_bin(minn=0, maxn=0)))
    _, info = embedding_matrix(settings, words, list, list)
    assert info["covered"] == 4
    assert "composed" not in info


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
    settings = replace(SETTINGS, source="file", path=str(tmp_path / "a.vec"), width=3)
    pieces = Pieces()
    pieces.pad_id = pad
    vectors, info = embedding_matrix(settings, pieces, list, list)
    assert vectors[[0, 1, 2, 4]].tolist() == [[7, 8, 9], [1, 2, 3], [1, 2, 3], [4, 5, 6]]
    assert vectors[[3, 5]].all()
    assert (info["words"], info["covered"]) == (5, 4)


@pytest.mark.parametrize("hub", ["", "a/b", "a@1", "a/b@"])
def test_a_repository_of_the_hub_has_an_owner_a_name_and_a_revision(hub):
    section = dataclasses.asdict(SETTINGS)
    assert read_section({"embedding": section}, "embedding", EmbeddingSettings) == SETTINGS
    with pytest.raises(InputError, match=r"embedding\.hub"):
        read_section({"embedding": section | {"hub": hub}}, "embedding", EmbeddingSettings)


def test_a_matrix_saved_and_loaded(tmp_path):
    vectors = np.arange(12, dtype=np.float32).reshape(4, 3)[:, ::-1]
    for name in ("one", "two"):
        save_matrix(tmp_path / name, vectors)
    assert np.array_equal(load_matrix(tmp_path / "one"), vectors)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


SIZE = 9


def stream(length, size=SIZE):
    return np.random.default_rng(1).integers(0, size, length)


def slow_counts(ids, window):
    table = np.zeros((SIZE, SIZE))
    for position, word in enumerate(ids):
        for other in range(max(0, position - window), min(len(ids), position + window + 1)):
            if other != position:
                table[word, ids[other]] += 1 / abs(other - position)
    return table


def dense(keys, values):
    table = np.zeros((SIZE, SIZE))
    table[keys // SIZE, keys % SIZE] = values
    return table


@pytest.mark.parametrize("window", [1, 3, 50])
def test_pairs_are_those_of_a_slow_count(monkeypatch, window):
    ids = stream(40)
    for tokens_at_once in (100, 20, 7):
        monkeypatch.setattr(counts, "TOKENS_AT_ONCE", tokens_at_once)
        assert np.allclose(dense(*count_pairs(ids, SIZE, window)), slow_counts(ids, window))


def test_information_is_that_of_its_formula():
    keys, values = count_pairs(stream(50, 6), SIZE, 2)  # three ids never occur
    table = dense(keys, values)
    smoothed = table.sum(0) ** counts.CONTEXT_SMOOTHING
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.log(table / table.sum(1, keepdims=True) / (smoothed / smoothed.sum()))
    expected = np.nan_to_num(information, neginf=0).clip(0)
    assert np.allclose(positive_information(keys, values, SIZE).to_dense(), expected)


def test_directions_are_those_of_an_exact_decomposition():
    generator = torch.Generator().manual_seed(1)
    left, right = (torch.randn(60, 5, generator=generator) for _ in range(2))
    matrix = (left * torch.tensor([9.0, 7.0, 5.0, 3.0, 1.0])) @ right.T
    axes, scales, _ = torch.linalg.svd(matrix)
    vectors = left_vectors(matrix.to_sparse().coalesce(), 5, seed=3)
    assert torch.allclose(vectors.abs(), (axes[:, :5] * scales[:5]).abs(), atol=1e-2)


def test_vectors_have_mean_square_1_and_missing_ids_none():
    vectors = count_vectors(stream(500, 7), SIZE, 4, window=2, seed=1)
    assert not vectors[7:].any()
    assert np.square(vectors[:7]).mean() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("ids", [[], [3], [3, 3], [1, 2]])
def test_hardly_any_text_gives_finite_vectors_of_the_width(ids):
    vectors = count_vectors(np.array(ids, dtype=np.int64), SIZE, 20, window=5, seed=1)
    assert vectors.shape == (SIZE, 20)
    assert np.isfinite(vectors).all()


def test_the_number_of_threads_changes_no_bit():
    ids = np.random.default_rng(1).integers(0, 3000, 200_000)
    before = torch.get_num_threads()
    vectors = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            vectors.append(count_vectors(ids, 3000, 64, 2, seed=1))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert np.array_equal(*vectors)
