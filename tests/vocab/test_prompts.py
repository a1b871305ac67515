import numpy as np
import pytest

from tinylm.vocab.prompts import choose_prompts, cut_prompts
from tinylm.vocab.token_store import TokenStore, write_store


def store(folder, lengths):
    write_store(folder, "evaluation", ([0, *range(4, 4 + n), 1] for n in lengths), 100)
    return TokenStore(folder, "evaluation")


def test_prompts_are_cut_behind_their_words_and_references_cut_to_length(tmp_path):
    (prompt,) = choose_prompts(store(tmp_path, [9]), 5, 3, 4, sos_id=0)
    assert prompt.ids == [0, 4, 5, 6]
    assert prompt.reference == [7, 8, 9, 10]
    (whole,) = choose_prompts(TokenStore(tmp_path, "evaluation"), 5, 3, None, sos_id=0)
    assert whole.reference == [7, 8, 9, 10, 11, 12, 1]


def test_stories_without_a_word_behind_the_prompt_are_passed_over(tmp_path):
    found = choose_prompts(store(tmp_path, [3, 4, 2, 5, 0, 6]), 9, 3, None, sos_id=0)
    assert [len(prompt.reference) for prompt in found] == [2, 3, 4]
    assert choose_prompts(TokenStore(tmp_path, "evaluation"), 9, 30, None, sos_id=0) == []


def test_prompts_are_spread_over_the_split(tmp_path):
    lengths = range(10, 31)
    found = choose_prompts(store(tmp_path, lengths), 3, 5, None, sos_id=0)
    assert [len(prompt.reference) for prompt in found] == [6, 16, 26]
    assert [prompt.story for prompt in found] == [0, 10, 20]


def test_a_reference_across_stories_goes_on_in_the_stream(tmp_path):
    first, second = choose_prompts(store(tmp_path, [5, 4]), 2, 3, 6, across=True, sos_id=0)
    assert first.ids == [0, 4, 5, 6]
    assert first.reference == [7, 8, 1, 0, 4, 5]
    assert second.reference == [7, 1]  # the stream ends
    whole, _ = choose_prompts(TokenStore(tmp_path, "evaluation"), 2, 3, None, across=True, sos_id=0)
    assert whole.reference == [7, 8, 1]


def test_stories_without_marks_are_cut_behind_their_own_tokens(tmp_path):
    write_store(
        tmp_path, "evaluation", [[2, 2, 2, 2], [5, 6, 7, 8], [9, 9, 9], [1, 2, 3, 4, 5]], 100
    )
    found = choose_prompts(TokenStore(tmp_path, "evaluation"), 3, 3, 9, sos_id=None)
    assert [(prompt.ids, prompt.reference) for prompt in found] == [
        ([5, 6, 7], [8]),
        ([1, 2, 3], [4, 5]),
    ]


def test_the_tail_of_a_story_that_the_split_was_cut_in_is_no_prompt(tmp_path):
    write_store(tmp_path, "evaluation", [[5, 6, 7, 8, 9, 1], [0, 4, 5, 6, 7, 1]], 100)
    tokens = TokenStore(tmp_path, "evaluation")
    assert [prompt.ids for prompt in choose_prompts(tokens, 9, 3, 9, sos_id=0)] == [[0, 4, 5, 6]]
    assert [prompt.ids for prompt in choose_prompts(tokens, 9, 3, 9, sos_id=None)] == [[0, 4, 5]]


def test_without_marks_a_splits_only_piece_has_to_do(tmp_path):
    write_store(tmp_path, "evaluation", [[5, 6, 7, 8]], 100)
    (found,) = choose_prompts(TokenStore(tmp_path, "evaluation"), 9, 3, 9, sos_id=None)
    assert found.ids == [5, 6, 7]


def test_cuts_of_the_stream_run_across_stories(tmp_path):
    tokens = store(tmp_path, [3, 9, 2, 30, 1] * 9)
    stream = tokens.ids.tolist()
    found = cut_prompts(tokens, 50, 5, 7, seed=1)
    places = [
        at
        for prompt in found
        for at in range(len(stream))
        if stream[at : at + 12] == prompt.ids + prompt.reference
    ]
    assert len(found) == 50
    assert {(len(prompt.ids), len(prompt.reference)) for prompt in found} == {(5, 7)}
    assert set(places) <= set(range(len(stream) - 11))
    assert any(0 in prompt.ids[1:] for prompt in found)
    assert any(0 in prompt.reference for prompt in found)


def test_cuts_depend_on_the_seed_alone_and_reach_every_place_once(tmp_path):
    write_store(tmp_path, "evaluation", [list(range(20))], 100)
    tokens = TokenStore(tmp_path, "evaluation")
    starts = [prompt.ids[0] for prompt in cut_prompts(tokens, 99, 3, 4, seed=1)]
    assert starts == list(range(14))
    drawn = [
        [prompt.ids[0] for prompt in cut_prompts(tokens, 4, 3, 4, seed)]
        for seed in (1, 1, *range(2, 400))
    ]
    assert drawn[0] == drawn[1] == sorted(drawn[0])
    counts = np.bincount(np.concatenate(drawn[1:]), minlength=14)
    assert counts == pytest.approx(
        np.full(14, counts.mean()), rel=0.35
    )  # all places alike: 5 standard deviations


@pytest.mark.parametrize(
    ("prompt", "reference", "expected"), [(3, 9, [([0, 1, 2], [3, 4])]), (5, 1, []), (9, 1, [])]
)
def test_a_short_stream_gives_what_is_there(tmp_path, prompt, reference, expected):
    write_store(tmp_path, "evaluation", [[0, 1, 2, 3, 4]], 100)
    found = cut_prompts(TokenStore(tmp_path, "evaluation"), 3, prompt, reference, seed=1)
    assert [(one.ids, one.reference) for one in found] == expected


def test_a_cut_knows_the_story_in_which_it_begins(tmp_path):
    write_store(tmp_path, "evaluation", [[0, 1, 2], [], [3], [4, 5, 6, 7, 8, 9]], 100)
    found = cut_prompts(TokenStore(tmp_path, "evaluation"), 9, 2, 1, seed=1)
    assert [(prompt.ids[0], prompt.story) for prompt in found] == [
        (i, 0 if i < 3 else 2 if i == 3 else 3) for i in range(8)
    ]
