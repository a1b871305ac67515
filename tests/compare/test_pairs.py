import dataclasses

import numpy as np
import pytest

from tinylm.compare.pairing import most_changed, pair_up


def with_stories(run, **columns):
    return dataclasses.replace(run, stories=run.stories.assign(**columns))


def test_runs_of_the_same_stories_are_compared_story_by_story(make_run):
    pairs = pair_up(make_run("a"), make_run("b", shift=0.1))
    assert pairs.stories.tolist() == [[i, i] for i in range(40)]
    assert pairs.samples.tolist() == [[i, i] for i in range(10)]
    assert pairs.same_tokens
    assert pairs.notes == []


def test_stories_match_by_their_text_wherever_they_are(make_run):
    first = make_run("a", texts=["x", "y", "twice", "twice", "z"])
    second = make_run("b", texts=["twice", "z", "new", "twice", "x", "twice"])
    pairs = pair_up(first, second)
    assert pairs.stories.tolist() == [[0, 4], [2, 0], [3, 3], [4, 1]]
    assert "4 stories of 5 and 6" in pairs.notes[0]


def test_perplexities_of_other_vocabularies_or_layouts_are_not_compared(make_run):
    first = make_run("a")
    vocabulary = make_run("b", vocabulary="other")
    normalised = with_stories(vocabulary, bytes=vocabulary.stories["bytes"] - 1)
    layout = with_stories(first, tokens=first.stories["tokens"] + np.eye(40)[3])
    for second, notes in ((vocabulary, 1), (normalised, 2), (layout, 1)):
        pairs = pair_up(first, second)
        assert len(pairs.stories) == 40
        assert not pairs.same_tokens
        assert len(pairs.notes) == notes


@pytest.mark.parametrize("key", ["prompt", "reference"])
def test_other_prompts_or_references_leave_bleu_out(make_run, key):
    first = make_run("a")
    second = make_run("b")
    others = second.samples.assign(**{key: "another"})
    pairs = pair_up(first, dataclasses.replace(second, samples=others))
    assert len(pairs.samples) == 0
    assert "BLEU" in pairs.notes[0]


def test_the_stories_that_changed_most_come_first_with_both_continuations(make_run):
    first = make_run("a")
    second = make_run("b", continuation="a cat sat")
    nats = second.stories["nats"].to_numpy().copy()
    nats[[8, 20, 21]] += np.array([-50.0, 90.0, 900.0])  # nobody continued story 21
    second = with_stories(second, nats=nats)
    changed = most_changed(first, second, pair_up(first, second))
    assert len(changed) == 5
    assert changed["story"].tolist()[:2] == [20, 8]
    most = changed.iloc[0]
    assert most["change"] == pytest.approx(90 / first.stories["tokens"][20])
    assert changed["change"].iloc[1] < 0
    assert most["first_continuation"] == "the dog ran home"
    assert most["second_continuation"] == "a cat sat"
    assert (most["prompt"], most["unit"]) == ("prompt 20", "nats per token")


def test_equal_runs_have_no_story_that_changed(make_run):
    first = make_run("a")
    second = make_run("b")
    assert most_changed(first, second, pair_up(first, second)).empty
    other = make_run("b", continuation="the dog sat")
    changed = most_changed(first, other, pair_up(first, other))
    assert set(changed["change"]) == {0.0}
