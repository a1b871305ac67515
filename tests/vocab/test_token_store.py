import json

import numpy as np
import pytest

from tinylm.base.config import InputError
from tinylm.vocab import token_store
from tinylm.vocab.token_store import TokenStore, coverage, write_store
from tinylm.vocab.words import UNK_ID

MARKS = (0, 1)
STORIES = [[0, 7, 4, 1], [0, 1], [0, 3, 3, 6, 1]]


@pytest.mark.parametrize(
    ("vocab_size", "dtype"), [(8, "uint16"), (65_536, "uint16"), (65_537, "uint32")]
)
def test_round_trip(tmp_path, vocab_size, dtype):
    stories = [*STORIES, [0, vocab_size - 1, 1]]
    info = write_store(tmp_path, "train", iter(stories), vocab_size)
    assert (info["stories"], info["tokens"], info["dtype"]) == (4, 14, dtype)
    store = TokenStore(tmp_path, "train")
    assert store.ids.dtype == dtype
    assert isinstance(store.ids, np.memmap)
    assert len(store) == 4
    assert [store.story(i).tolist() for i in range(4)] == stories
    assert store.ids.tolist() == sum(stories, [])  # noqa: RUF017
    assert store.offsets.tolist() == [0, 4, 6, 11, 14]
    assert store.offsets.dtype == np.int64
    assert store.vocab_size == vocab_size


def test_equal_stories_give_equal_bytes(tmp_path):
    for name in ("one", "two"):
        write_store(tmp_path / name, "train", STORIES, 8)
    for kind in ("ids", "offsets", "json"):
        assert (tmp_path / "one" / f"train.{kind}").read_bytes() == (
            tmp_path / "two" / f"train.{kind}"
        ).read_bytes()


def test_no_stories(tmp_path):
    write_store(tmp_path, "train", [], 8)
    store = TokenStore(tmp_path, "train")
    assert len(store) == len(store.ids) == 0
    found = coverage(store, UNK_ID, MARKS)
    assert (found["words"], found["unknown_share"], found["coverage"]) == (0, 0.0, 1.0)
    assert found["sequence_length"] == {"mean": 0.0, "median": 0.0, "largest": 0}


@pytest.mark.parametrize("chunk", [1, 3, 1000])
def test_coverage(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(token_store, "STORIES_AT_ONCE", chunk)
    write_store(tmp_path, "train", STORIES, 8)
    store = TokenStore(tmp_path, "train")
    found = {"words": 5, "unknown": 2, "unknown_share": 0.4, "coverage": 0.6}
    lengths = {"mean": 1.667, "median": 2.0, "largest": 3}
    assert coverage(store, UNK_ID, MARKS) == found | {"sequence_length": lengths}
    every = coverage(store, None, ())  # pieces of words: none unknown, no mark
    assert (every["words"], every["coverage"], every["sequence_length"]["largest"]) == (11, 1.0, 5)


@pytest.mark.parametrize("wrong", [8, -1, 65_536])
def test_id_outside_the_vocabulary_writes_nothing(tmp_path, wrong):
    with pytest.raises(ValueError, match="outside 0 to 7"):
        write_store(tmp_path, "train", [[0, 1], [0, wrong, 1]], 8)
    assert not list(tmp_path.iterdir())


def test_stories_are_written_as_they_come(tmp_path):
    alive = []

    def stories():
        for number in range(50):
            if number:
                assert list(
                    tmp_path.glob(".train.*.tmp.ids")
                )  # being written, and not yet under its name
            assert not (tmp_path / "train.ids").exists()
            alive.append(number)
            yield [0, number % 8, 1]

    write_store(tmp_path, "train", stories(), 8)
    assert len(TokenStore(tmp_path, "train")) == len(alive) == 50


@pytest.mark.parametrize("kind", ["ids", "offsets"])
@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
def test_damage_is_found_and_the_stage_named(tmp_path, kind, damage):
    write_store(tmp_path, "train", STORIES, 8)
    TokenStore(tmp_path, "train")  # a check that passed once must not hide the damage
    path = tmp_path / f"train.{kind}"
    content = bytearray(path.read_bytes())
    if damage == "remove":
        path.unlink()
    elif damage == "truncate":
        path.write_bytes(content[:-1])
    else:
        content[3] ^= 1
        path.write_bytes(content)
    with pytest.raises(InputError, match=rf"train\.{kind}.*vocab"):
        TokenStore(tmp_path, "train")


@pytest.mark.parametrize(
    "change",
    [{"vocab_size": None}, {"offsets_sha256": 3}, {"ids_sha256": "0"}],
)
def test_description_that_does_not_fit(tmp_path, change):
    write_store(tmp_path, "train", STORIES, 8)
    path = tmp_path / "train.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match="dvc repro -f -s vocab"):
        TokenStore(tmp_path, "train")
    path.write_text("[]")
    with pytest.raises(InputError, match="not part of a token store"):
        TokenStore(tmp_path, "train")


def test_missing_store_names_the_stage(tmp_path):
    with pytest.raises(InputError, match=r"train\.json is missing: run dvc repro vocab"):
        TokenStore(tmp_path, "train")
