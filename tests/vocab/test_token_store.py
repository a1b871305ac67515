import json

import numpy as np
import pytest

from tinylm.base.config import InputError
from tinylm.vocab.token_store import TokenStore, coverage, write_store

STORIES = [[0, 7, 4, 1], [0, 1], [0, 3, 3, 6, 1]]


@pytest.mark.parametrize(
    ("vocab_size", "dtype"), [(8, "uint16"), (65_536, "uint16"), (65_537, "uint32")]
)
def test_round_trip(tmp_path, vocab_size, dtype):
    stories = [*STORIES, [0, vocab_size - 1, 1]]
    write_store(tmp_path, "train", iter(stories), vocab_size)
    info = json.loads((tmp_path / "train.json").read_text())
    assert (info["stories"], info["tokens"], info["dtype"]) == (4, 14, dtype)
    store = TokenStore(tmp_path, "train")
    assert store.ids.dtype == dtype
    assert isinstance(store.ids, np.memmap)
    assert store.vocab_size == vocab_size
    assert [store.story(i).tolist() for i in range(len(store))] == stories


def test_coverage_of_pieces_of_words(tmp_path):
    write_store(tmp_path, "train", STORIES, 8)
    pieces = coverage(TokenStore(tmp_path, "train"), None, ())  # none unknown, no mark
    assert (pieces["sequence_length"]["mean"], pieces["coverage"]) == (3.667, 1.0)


@pytest.mark.parametrize("wrong", [8, -1, 65_536])
def test_an_id_outside_the_vocabulary_writes_nothing(tmp_path, wrong):
    with pytest.raises(ValueError, match="outside"):
        write_store(tmp_path, "train", [[0, 1], [0, wrong, 1]], 8)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["ids", "offsets"])
def test_a_truncated_or_missing_file_is_noticed_and_the_stage_named(tmp_path, kind):
    write_store(tmp_path, "train", STORIES, 8)
    path = tmp_path / f"train.{kind}"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=rf"train\.{kind}.*vocab"):
        TokenStore(tmp_path, "train")
    path.unlink()
    with pytest.raises(InputError, match=rf"train\.{kind}.*vocab"):
        TokenStore(tmp_path, "train")


@pytest.mark.parametrize("change", [{"vocab_size": None}, {"tokens": "many"}])
def test_a_description_that_does_not_fit_is_refused(tmp_path, change):
    write_store(tmp_path, "train", STORIES, 8)
    path = tmp_path / "train.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match="vocab"):
        TokenStore(tmp_path, "train")
    path.unlink()
    with pytest.raises(InputError, match=r"train\.json"):
        TokenStore(tmp_path, "train")
