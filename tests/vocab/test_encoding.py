"""Stories become token stores; a stream of tokens is cut into train and held-out; what a store refuses."""

import itertools
import json
import random

import numpy as np
import pytest

from tests.support.folders import write_stories
from tinylm.base import parallel
from tinylm.base.config import InputError
from tinylm.text.stories import SPLITS
from tinylm.vocab import encoding, words
from tinylm.vocab.coverage import coverage
from tinylm.vocab.cut_stream import cut_stream
from tinylm.vocab.encoding import encode_splits
from tinylm.vocab.make_tokenizer import make_tokenizer
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.token_store import TokenStore, write_store

STORIES = [[0, 10, 11, 12, 1], [0, 13, 1], [0, 14, 15, 16, 17, 18, 1], [0, 19, 1], [0, 20, 1]]
STREAM = list(itertools.chain(*STORIES))  # 21 ids


@pytest.mark.parametrize("kind", ["words", "bpe", "longest_match"])
def test_stores_have_every_story_and_any_number_of_processes_writes_the_same(
    tmp_path, monkeypatch, kind
):
    chooser = random.Random(5)
    vocabulary = ["a", "bad", "Cat's", "naïve", "dog.", "end"]
    texts = [" ".join(chooser.choices(vocabulary, k=40)) for _ in range(120)]
    for split in SPLITS:
        write_stories(tmp_path / f"{split}.jsonl", texts)
    monkeypatch.setattr(encoding, "STORIES_AT_ONCE", 10)
    monkeypatch.setattr(words, "STORIES_AT_ONCE", 10, raising=False)
    monkeypatch.setattr(parallel, "INLINE_TASKS", 2)
    settings = VocabSettings(tokenizer=kind, max_size=300)
    tokenizer, seen = make_tokenizer(settings, lambda: texts, 1)
    encode_splits(tokenizer, tmp_path, tmp_path / "1", 1)
    assert seen == ({"words_seen": 6, "words_seen_once": 0} if kind == "words" else {})
    store = TokenStore(tmp_path / "1", "train")
    assert [store.story(i).tolist() for i in range(120)] == list(map(tokenizer.encode_story, texts))
    again, _ = make_tokenizer(settings, lambda: texts, 2)
    encode_splits(again, tmp_path, tmp_path / "2", 2)
    assert again.tokens == tokenizer.tokens
    for path in (tmp_path / "1").iterdir():
        assert path.read_bytes() == (tmp_path / "2" / path.name).read_bytes()


def cut(folder, share, overlap, evaluation=(), stories=STORIES):
    write_store(folder, "train", stories, 30)
    write_store(folder, "evaluation", evaluation, 30)
    info = cut_stream(folder, share, overlap)
    return info, {split: TokenStore(folder, split) for split in SPLITS}


@pytest.mark.parametrize("overlap", [0, 1, 11])
@pytest.mark.parametrize("share", [0.1, 0.4])
def test_both_sides_have_the_overlap_and_nothing_is_lost(tmp_path, share, overlap):
    info, stores = cut(tmp_path, share, overlap)
    position = int((1 - share) * (21 - overlap))
    assert info["cut"] == position
    assert stores["train"].ids.tolist() == STREAM[: position + overlap]
    assert stores["held_out"].ids.tolist() == STREAM[position:]


def test_evaluation_is_the_held_out_tokens_if_the_data_has_none(tmp_path):
    _, stores = cut(tmp_path, 0.4, 2)
    assert stores["evaluation"].ids.tolist() == stores["held_out"].ids.tolist()
    _, stores = cut(tmp_path / "official", 0.4, 2, evaluation=[[0, 29, 1]])
    assert stores["evaluation"].ids.tolist() == [0, 29, 1]


@pytest.mark.parametrize(("share", "overlap"), [(0.4, 20), (0.4, 500), (0.01, 0)])
def test_a_cut_that_leaves_a_side_empty_is_refused(tmp_path, share, overlap):
    with pytest.raises(InputError, match=r"data\.held_out_share"):
        cut(tmp_path, share, overlap)
    assert TokenStore(tmp_path, "train").ids.tolist() == STREAM


ROWS = [[0, 7, 4, 1], [0, 1], [0, 3, 3, 6, 1]]


@pytest.mark.parametrize(
    ("vocab_size", "dtype"), [(8, "uint16"), (65_536, "uint16"), (65_537, "uint32")]
)
def test_round_trip(tmp_path, vocab_size, dtype):
    stories = [*ROWS, [0, vocab_size - 1, 1]]
    write_store(tmp_path, "train", iter(stories), vocab_size)
    info = json.loads((tmp_path / "train.json").read_text())
    assert (info["stories"], info["tokens"], info["dtype"]) == (4, 14, dtype)
    store = TokenStore(tmp_path, "train")
    assert store.ids.dtype == dtype
    assert isinstance(store.ids, np.memmap)
    assert store.vocab_size == vocab_size
    assert [store.story(i).tolist() for i in range(len(store))] == stories


def test_coverage_of_pieces_of_words(tmp_path):
    write_store(tmp_path, "train", ROWS, 8)
    pieces = coverage(TokenStore(tmp_path, "train"), None, ())  # none unknown, no mark
    assert (pieces["sequence_length"]["mean"], pieces["coverage"]) == (3.667, 1.0)


@pytest.mark.parametrize("wrong", [8, -1, 65_536])
def test_an_id_outside_the_vocabulary_writes_nothing(tmp_path, wrong):
    with pytest.raises(ValueError, match="outside"):
        write_store(tmp_path, "train", [[0, 1], [0, wrong, 1]], 8)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["ids", "offsets", "json"])
def test_a_missing_or_truncated_file_is_named(tmp_path, kind):
    write_store(tmp_path, "train", ROWS, 8)
    path = tmp_path / f"train.{kind}"
    if kind == "ids":
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(InputError, match=r"train\.ids: expected .* bytes, got"):
            TokenStore(tmp_path, "train")
    path.unlink()
    with pytest.raises(InputError, match=rf"train\.{kind}.*run dvc repro"):
        TokenStore(tmp_path, "train")
