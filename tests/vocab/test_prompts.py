import numpy as np
import pytest

from tinylm.vocab.prompts import choose_prompts, cut_prompts
from tinylm.vocab.token_store import TokenStore, write_store


def store(folder, stories):
    write_store(folder, "evaluation", stories, 100)
    return TokenStore(folder, "evaluation")


def marked(*lengths):
    """Stories between <sos> and <eos>."""
    return [[0, *range(4, 4 + length), 1] for length in lengths]


def choose(tokens, count=9, sos_id=0, **keys):
    prompts = choose_prompts(tokens, count, 3, **keys, sos_id=sos_id)
    return [(prompt.ids, prompt.reference) for prompt in prompts]


@pytest.mark.parametrize(
    ("reference_tokens", "references"),
    [
        (2, [[7, 8], [7, 1]]),
        (6, [[7, 8, 1], [7, 1]]),  # to the story's end
        (None, [[7, 8, 1], [7, 1]]),
    ],
)
def test_a_story_is_cut_after_the_prompt_and_the_reference(tmp_path, reference_tokens, references):
    tokens = store(tmp_path, marked(5, 3, 4))  # the second is too short
    prompts = choose(tokens, reference_tokens=reference_tokens)
    assert [ids for ids, _ in prompts] == [[0, 4, 5, 6]] * 2
    assert [reference for _, reference in prompts] == references


def test_stories_without_marks_are_cut_after_their_tokens(tmp_path):
    stories = [[2, 2, 2, 2], [5, 6, 7, 8], [9, 9, 9], [1, 2, 3, 4, 5]]
    prompts = choose(store(tmp_path, stories), sos_id=None, reference_tokens=9)
    assert prompts == [([5, 6, 7], [8]), ([1, 2, 3], [4, 5])]  # the first may be a story's tail
    only = choose(store(tmp_path, stories[1:2]), sos_id=None, reference_tokens=9)
    assert only == [([5, 6, 7], [8])]


def test_cuts_of_the_stream_run_across_stories_and_name_the_one_they_begin_in(tmp_path):
    tokens = store(tmp_path, [[0, 1, 2], [], [3], [4, 5, 6, 7, 8, 9]])
    prompts = cut_prompts(tokens, 9, 2, 1, seed=1)
    spans = [[start, start + 1, start + 2] for start in range(8)]
    assert [prompt.ids + prompt.reference for prompt in prompts] == spans
    assert [prompt.story for prompt in prompts] == [0, 0, 0, 2, 3, 3, 3, 3]


def test_cuts_depend_on_the_seed_and_are_uniform(tmp_path):
    tokens = store(tmp_path, [list(range(20))])
    drawn = []
    for seed in (1, 1, *range(2, 400)):
        prompts = cut_prompts(tokens, 4, 3, 4, seed)
        drawn.append([prompt.ids[0] for prompt in prompts])
    assert drawn[0] == drawn[1] == sorted(set(drawn[0]))
    counts = np.bincount(np.concatenate(drawn[1:]))
    assert counts == pytest.approx(np.full(14, counts.mean()), rel=0.35)  # 5 standard deviations
