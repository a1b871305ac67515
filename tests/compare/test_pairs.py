import dataclasses

import numpy as np
import pytest

from tinylm.compare.comparison import pair_up


def test_runs_of_the_same_stories_are_compared_story_by_story(make_run):
    first, second = make_run("a"), make_run("b", shift=0.1)
    pairs = pair_up(first, second)
    assert pairs.stories.tolist() == [[i, i] for i in range(40)]
    assert pairs.samples.tolist() == [[i, i] for i in range(10)]
    assert pairs.same_tokens
    assert pairs.notes == []


def test_stories_are_found_by_their_text_wherever_they_stand(make_run):
    first = make_run("a", texts=["x", "y", "twice", "twice", "z"])
    second = make_run("b", texts=["twice", "z", "new", "twice", "x", "twice"])
    pairs = pair_up(first, second)
    assert pairs.stories.tolist() == [[0, 4], [2, 0], [3, 3], [4, 1]]
    assert pairs.notes[:1] == [
        "the evaluation texts differ: compared over the 4 stories of 5 and 6 that both hold"
    ]


def test_no_common_story_leaves_bits_per_byte(make_run):
    pairs = pair_up(make_run("a", texts=["x", "y"]), make_run("b", texts=["v", "w"]))
    assert pairs.stories.shape == pairs.samples.shape == (0, 2)
    assert not pairs.same_tokens
    assert "only bits per byte are compared" in pairs.notes[0]


def test_another_vocabulary_is_told(make_run):
    first, second = make_run("a"), make_run("b", vocabulary="other")
    pairs = pair_up(first, second)
    assert len(pairs.stories) == 40
    assert not pairs.same_tokens
    assert pairs.notes == [
        "the vocabularies differ: perplexities are not of the same tokens; bits per byte are compared"
    ]
    shorter = dataclasses.replace(second.stories, n_bytes=second.stories.n_bytes - 1)
    notes = pair_up(first, dataclasses.replace(second, stories=shorter)).notes
    assert "normalised differently" in notes[1]


def test_another_layout_scores_other_tokens(make_run):
    first, second = make_run("a"), make_run("b")
    more = dataclasses.replace(second.stories, tokens=second.stories.tokens + np.eye(40)[3])
    pairs = pair_up(first, dataclasses.replace(second, stories=more))
    assert not pairs.same_tokens
    assert "the layouts score other tokens" in pairs.notes[0]


@pytest.mark.parametrize("key", ["prompt", "reference"])
def test_other_prompts_or_references_leave_bleu_out(make_run, key):
    first, second = make_run("a"), make_run("b")
    others = [row | {key: "another"} for row in second.samples]
    pairs = pair_up(first, dataclasses.replace(second, samples=others))
    assert len(pairs.samples) == 0
    assert pairs.notes == ["the prompts or their references differ: BLEU is not compared"]
    kept = [*second.samples[:3], *others[3:]]
    assert len(pair_up(first, dataclasses.replace(second, samples=kept)).samples) == 3


def test_a_run_without_losses_of_stories_has_no_intervals(make_run):
    first, second = make_run("a"), dataclasses.replace(make_run("b"), stories=None, samples=[])
    pairs = pair_up(first, second)
    assert pairs.stories.shape == (0, 2)
    assert pairs.notes == ["b: no losses of single stories, so no intervals of differences"]
