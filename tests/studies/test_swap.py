"""A fact that is swapped in the residual stream."""

import random

import torch

from studies.swap import pair, patched
from tests.support.small import random_model
from tinylm.storybook.corpus import generate, normalise
from tinylm.storybook.truth import END, first_impossible, vocabulary


def test_a_patch_before_the_first_layer_makes_the_twin_and_one_after_the_last_changes_one_word():
    model = random_model(vocab=40, width=16, context=9).double()
    ids = torch.tensor([1, 5, 9, 5, 7, 8])
    twin = torch.tensor([1, 6, 9, 6, 7, 8])
    of_story, of_twin = (
        torch.log_softmax(model(row[None])[0], -1).detach().numpy() for row in (ids, twin)
    )
    first, between, last = patched(model, ids, twin, [1, 3])
    assert abs(first - of_twin).max() < 1e-12
    assert abs(last[[1, 3]] - of_twin[[1, 3]]).max() < 1e-12
    others = [0, 2, 4, 5]
    assert abs(last[others] - of_story[others]).max() < 1e-12
    assert abs(between[4] - of_story[4]).max() > 1e-3 < abs(between[4] - of_twin[4]).max()


def test_a_twin_is_a_possible_story_with_another_name():
    found = 0
    for story in generate(8, 0, 1)[0]:
        words = normalise(story.text).split()
        twins = pair(words, "person", set(vocabulary()), random.Random(1))
        if twins is None:
            continue
        found += 1
        assert [word for word, _ in twins.story] == [*words, END]
        swapped = [word for word, _ in twins.twin][:-1]
        assert first_impossible(swapped, ended=True) is None
        differ = [number for number in range(len(words)) if swapped[number] != words[number]]
        assert differ == twins.mentions
        assert len({words[number] for number in differ}) == 1
    assert found > 3
