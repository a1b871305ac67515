"""The true probabilities of next words, compared with the generator that draws them."""

import copy
import math
import random
import re
from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drawn.judged import judged_plainly
from tinylm.storybook.corpus import Sampler, Telling, generate
from tinylm.storybook.grammar import Call
from tinylm.storybook.language import END
from tinylm.storybook.lexicon import Weighted
from tinylm.storybook.truth import Truth, first_impossible, read_text
from tinylm.storybook.world import storybook

WORLD = storybook()
PLOTS = WORLD.rule("plot").phrases
STORIES = [WORLD.normalise(story.text).split() for story in generate(12, 1, 3)[0]]
BIRCHVILLE = "june was a hopeful girl from birchville"
COUSIN = f"{BIRCHVILLE} she had a talkative cousin named"
RING = f"{COUSIN} ella one dull saturday june found a gleaming ring"
BEGINNING = 40  # words
ENDINGS = 10  # of each beginning
CHI_SQUARE = 27.9  # with 9 degrees of freedom, larger with a probability of 0.001


@pytest.mark.parametrize("plot", range(len(PLOTS.options)))
def test_stories_of_every_plot_have_their_exact_probability(plot):
    sampler = Sampler(f"plot {plot}")
    words = story_of_plot(sampler, plot)
    truth, unasked = Truth(), Truth()  # the second computes no more than the word's probability
    for word in [*words, END]:
        following = truth.next_words()
        assert math.fsum(following.probs.values()) == pytest.approx(1, abs=1e-9)
        assert following.kind in WORLD.meaning
        if following.kind in ("plot", "fixed"):
            assert (following.kind == "fixed") == (len(following.probs) == 1), following
        assert unasked.read("a/an") == 0.0  # stands for both forms, in derivations only
        assert truth.read(word) == unasked.read(word) == following.probs[word]
    assert truth.log_prob == pytest.approx(sampler.log_prob, abs=1e-9)
    assert truth.next_words().probs == {}


def endings_of_one_beginning(sampler, endings):
    """(words of the beginning, words of the rest of each story), all drawn; the beginnings are equal."""
    telling = Telling(WORLD, [Call("story")])
    while choice := telling.advance():
        if len(WORLD.normalise(WORLD.render(telling.pieces)).split()) > BEGINNING:
            break
        telling.take(choice, sampler.pick(choice.weighted, choice.banned))
    # the last word may still change: "a" before a vowel becomes "an"
    beginning = WORLD.normalise(WORLD.render(telling.pieces)).split()[:-1]
    rests = []
    for _ in range(endings):
        story = telling.fork()
        story.pieces = telling.pieces.copy()
        further = choice
        while further:
            story.take(further, sampler.pick(further.weighted, further.banned))
            further = story.advance()
        words = [*WORLD.normalise(WORLD.render(story.pieces)).split(), END]
        assert words[: len(beginning)] == beginning
        rests.append(words[len(beginning) :])
    return beginning, rests


@pytest.mark.parametrize("stories", [60, 5_000])
def test_drawn_words_cannot_be_told_from_the_true_distribution(stories):
    """Where each drawn word falls in the cumulative distribution is uniform (Rosenblatt 1952).

    Whatever came before it, so ten stories may share their beginning, which takes most of the time.
    """
    sampler = Sampler("cannot be told")
    rng = random.Random(1)
    counts = {kind: Counter() for kind in WORLD.meaning}

    def read(truth, words):
        for word in words:
            following = truth.next_words()
            below = 0.0
            for other, prob in following.probs.items():
                if other == word:
                    break
                below += prob
            place = below + following.probs[word] * rng.random()
            counts[following.kind][min(int(10 * place), 9)] += 1
            truth.read(word)

    for _ in range(stories // ENDINGS):
        beginning, rests = endings_of_one_beginning(sampler, ENDINGS)
        truth = Truth()
        read(truth, beginning)
        for rest in rests:
            read(copy.copy(truth), rest)
    assert counts["end"].total() >= stories
    for kind, bins in counts.items():
        expected = bins.total() / 10
        square = sum((bins[number] - expected) ** 2 for number in range(10)) / expected
        assert square < CHI_SQUARE, (kind, bins)


@pytest.mark.parametrize(
    ("text", "word", "kind", "expected"),
    [
        (BIRCHVILLE, "he", "person", "she"),
        (COUSIN, "june", "person", "mia"),
        (f"{RING} i will hide the gleaming", "kite", "thing", "ring"),
        ("long ago a thoughtful boy called", "wendy", "person", "tom"),
        ("once upon a time", "once", "fixed", "there"),
        ("once upon a time there was a", "honest", "detail", "brave"),
    ],
)
def test_the_first_impossible_word(text, word, kind, expected):
    words = text.split()
    assert first_impossible(words, False) is None
    found = first_impossible([*words, word, "and", "more"], False)
    assert (found.position, found.word, found.kind) == (len(words), word, kind)
    assert expected in found.expected


def test_only_whole_stories_may_end():
    for words in STORIES:
        assert first_impossible(words, True) is None
        assert first_impossible(words[:-1], True).word == END
        found = first_impossible([*words, "the"], True)
        assert (found.word, found.kind, found.expected) == ("the", "end", (END,))


@given(weights=st.lists(st.integers(1, 50), min_size=1, max_size=60), data=st.data())
def test_draws_are_in_exact_proportion_whatever_is_banned(weights, data):
    """Random bits that are spread evenly draw each option as often as its weight says."""
    places = st.sets(st.sampled_from(range(len(weights))), max_size=len(weights) - 1)
    banned = tuple(data.draw(places))
    weighted = Weighted(range(len(weights)), weights)
    count = 4 * sum(weights)
    spread = iter([(2 * number + 1) * 2**64 // (2 * count) for number in range(count)])
    sampler = Sampler("")
    sampler._bits = lambda bits: next(spread) >> (64 - bits)
    draws: Counter[int] = Counter()
    with suppress(StopIteration):
        while True:
            draws[sampler.pick(weighted, banned)] += 1
    allowed = {index: weights[index] for index in range(len(weights)) if index not in banned}
    assert draws == {index: 4 * weight for index, weight in allowed.items()}
    for index, weight in allowed.items():
        share = math.exp(weighted.log_prob(index, banned))
        assert share == pytest.approx(weight / sum(allowed.values()))


def story_of_plot(sampler: Sampler, plot: int) -> list[str]:
    """The words of a story whose plot is the option of this number; the sampler has its ln P."""
    telling = Telling(WORLD, [Call("story")])
    while choice := telling.advance():
        index = sampler.pick(choice.weighted, choice.banned)
        if choice.weighted is PLOTS:
            sampler.log_prob += PLOTS.log_prob(plot) - PLOTS.log_prob(index)
            index = plot
        telling.take(choice, index)
    return WORLD.normalise(WORLD.render(telling.pieces)).split()


@st.composite
def judged_texts(draw):
    """(prompt, continuation, whether it has ended): a story, cut twice, perhaps with one word changed."""
    words = [*draw(st.sampled_from(STORIES))]
    if draw(st.booleans()):
        place = draw(st.integers(0, 12))
        start = words[place][:2]
        others = ["zzz", "<unk>", f"{start}<unk>", start, ".", "", words[place + 1]]
        words[place] = draw(st.sampled_from(others))
    text = " ".join(words)
    spaces = [match.end() for match in re.finditer(" ", text[:90])]
    ends = st.integers(0, 90) | st.sampled_from(spaces) | st.just(len(text))
    start, end = sorted(draw(st.tuples(ends, ends)))
    return text[:start], text[start:end], draw(st.booleans())


@settings(max_examples=200)
@given(judged=judged_texts(), has_pieces=st.booleans())
def test_texts_are_read_up_to_their_first_impossible_or_unknown_word(judged, has_pieces):
    wanted = judged_plainly(*judged, WORLD, has_pieces)
    found = read_text(*judged, WORLD, has_pieces)
    if found and found[1]:
        error = found[1]
        found = (found[0], (error.word, error.kind, ", ".join(error.expected)))
    assert found == wanted


@given(story=st.sampled_from(STORIES), cuts=st.tuples(*2 * [st.integers(0, 2000)]))
def test_pieces_of_words_are_read_wherever_a_prompt_and_its_continuation_end(story, cuts):
    text = " ".join(story)
    start, end = sorted(cut % (len(text) + 1) for cut in cuts)
    prompt, continuation = text[:start], text[start:end]
    is_ended = end == len(text)
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    complete = [last for _, last in spans if last < end or is_ended]
    expected = sum(last > start for last in complete)
    found = read_text(prompt, continuation, is_ended, WORLD, pieces=True)
    assert found == (expected, None)
    before = [last for _, last in spans if last < end]
    wrong = read_text(prompt, f"{continuation}zzz and more", is_ended, WORLD, pieces=True)
    assert (wrong[0], wrong[1].position) == (sum(last > start for last in before) + 1, len(before))
    broken_off = read_text(prompt, " zzz.", True, WORLD, pieces=True)
    assert broken_off[1].word in ("zzz", prompt.split()[-1] if prompt else "")
