import numpy as np
import pytest

from tinylm.base.config import InputError
from tinylm.vocab.encoding import cut_stream
from tinylm.vocab.token_store import TokenStore, write_store

STORIES = [
    [0, 10, 11, 12, 1],
    [0, 13, 1],
    [0, 14, 15, 16, 17, 18, 1],
    [0, 19, 1],
    [0, 20, 1],
]  # 21 ids
STREAM = sum(STORIES, [])  # noqa: RUF017


def cut(folder, share, overlap, evaluation=(), stories=STORIES):
    write_store(folder, "train", stories, 30)
    write_store(folder, "evaluation", evaluation, 30)
    info = cut_stream(folder, share, overlap)
    return info, {split: TokenStore(folder, split) for split in ("train", "held_out", "evaluation")}


@pytest.mark.parametrize("overlap", [0, 1, 4, 11])
@pytest.mark.parametrize("share", [0.1, 0.25, 0.4])
def test_both_sides_hold_the_overlap_and_nothing_is_lost(tmp_path, share, overlap):
    info, stores = cut(tmp_path, share, overlap)
    at = int((1 - share) * (21 - overlap))
    assert info["cut"] == at
    assert stores["train"].ids.tolist() == STREAM[: at + overlap]
    assert stores["held_out"].ids.tolist() == STREAM[at:]
    assert f"straddle the cut by {overlap} tokens" in info["notes"][0]


def test_stories_at_the_cut_become_pieces(tmp_path):
    _, stores = cut(tmp_path, 0.4, 0)  # 12: within the third story
    assert [stores["train"].story(i).tolist() for i in range(3)] == [*STORIES[:2], [0, 14, 15, 16]]
    assert [stores["held_out"].story(i).tolist() for i in range(3)] == [[17, 18, 1], *STORIES[3:]]
    assert len(stores["train"]) == len(stores["held_out"]) == 3


def test_a_cut_between_two_stories_leaves_no_empty_piece(tmp_path):
    _, stores = cut(
        tmp_path, 0.4, 0, stories=[STORIES[0], STORIES[3], STORIES[4]] * 2
    )  # 22 ids, cut at 13
    assert all(np.diff(stores["train"].offsets) > 0)
    assert all(np.diff(stores["held_out"].offsets) > 0)
    _, stores = cut(
        tmp_path / "even", 0.4, 0, stories=[[0, 10, 1]] * 10
    )  # cut at 18, between two stories
    assert [len(stores[split]) for split in ("train", "held_out")] == [6, 4]


def test_evaluation_is_the_held_out_tokens_where_the_data_has_none(tmp_path):
    info, stores = cut(tmp_path, 0.4, 2)
    for kind in ("ids", "offsets", "json"):
        assert (tmp_path / f"evaluation.{kind}").read_bytes() == (
            tmp_path / f"held_out.{kind}"
        ).read_bytes()
    assert info["notes"][-1] == "evaluation is the held-out tokens"
    info, stores = cut(tmp_path / "own", 0.4, 2, evaluation=[[0, 29, 1]])
    assert stores["evaluation"].ids.tolist() == [0, 29, 1]
    assert info["notes"][-1] == "evaluation has stories of its own"


def test_notes_name_what_saw_the_whole_stream(tmp_path):
    write_store(tmp_path, "evaluation", [], 30)
    for vectors, expected in (
        (False, "a vocabulary made here"),
        (True, "a vocabulary and word vectors made here"),
    ):
        write_store(tmp_path, "train", STORIES, 30)
        assert (
            f"{expected} saw the whole stream"
            in cut_stream(tmp_path, 0.4, 2, vectors=vectors)["notes"]
        )


def test_windows_are_cut_at_the_same_share(tmp_path):
    """The published cut: 423,593 windows of 50 at stride 1 are 338,874 in train and 84,719 in held-out."""
    _, stores = cut(tmp_path, 0.2, 50, stories=[np.arange(423_643) % 30])
    assert [len(stores[split].ids) - 50 for split in ("train", "held_out", "evaluation")] == [
        338_874,
        84_719,
        84_719,
    ]


def test_ninety_to_ten_by_tokens(tmp_path):
    """The published cut: 2,352,219 training and 261,358 validation tokens."""
    _, stores = cut(tmp_path, 0.1, 0, stories=[np.arange(2_613_577) % 30])
    assert [len(stores[split].ids) for split in ("train", "held_out")] == [2_352_219, 261_358]


@pytest.mark.parametrize(
    ("share", "overlap"), [(0.4, 20), (0.4, 21), (0.4, 500), (0.01, 0), (0.04, 0)]
)
def test_a_cut_that_leaves_a_side_empty_is_refused(tmp_path, share, overlap):
    with pytest.raises(
        InputError,
        match=rf"data\.held_out_share = {share}, data\.overlap = {overlap}: .* 21 tokens",
    ):
        cut(tmp_path, share, overlap)
    assert TokenStore(tmp_path, "train").ids.tolist() == STREAM
