"""Oracle: continuations whose score is known: copies (1), strange words (0), half of each."""

import math

from tinylm.learn.expect import expect

STORY = ["a", "b", "c", "d", "e", "f", "g", "h"]


def strange_words(score):
    """a continuation of strange words has BLEU 0, whatever the prompt"""
    for prompt in (2, 4, 6):
        text = STORY[:prompt] + ["x"] * (len(STORY) - prompt)
        given = {"stories": [STORY], "generated": [text], "prompt_words": prompt}
        answer = score(*given.values())
        expect(lambda *_: answer, given, 0.0,  # noqa: B023
               {"the prompt is scored, too: begin after it": answer})  # fmt: skip


def a_copy(score):
    """a continuation that is the story has BLEU 1"""
    given = {"stories": [STORY], "generated": [STORY], "prompt_words": 3}
    expect(
        score,
        given,
        1.0,
        {"text and reference do not begin at the same word": score(*given.values())},
    )


def an_early_end(score):
    """a text that ends early is compared with as many words of the story"""
    given = {"stories": [STORY], "generated": [STORY[:6]], "prompt_words": 3}
    expect(score, given, 1.0, {"keep where the reference ends: at len(text)": math.exp(1 - 5 / 3)})


def half_a_copy(score):
    """a half copied continuation: 2 of 4 words, 1 of 3 pairs"""
    text = [*STORY[:4], "e", "f", "x", "y"]
    given = {"stories": [STORY], "generated": [text], "prompt_words": 4}
    expect(
        score,
        given,
        math.sqrt(2 / 4 * 1 / 3),
        {"the prompt is scored, too": math.sqrt(6 / 8 * 5 / 7)},
    )
