"""Oracle: the definition, at points that can be worked out by hand."""

import math

from tinylm.learn.expect import expect

SETTINGS = {"budget": 1000.0, "peak": 0.5, "warmup": 0.1, "final": 0.2}


def _compare(learning_rate, tokens, expected):
    expect(learning_rate, {"tokens": tokens, **SETTINGS}, expected, {
        "the peak from the start: where is the warm-up?": 0.5,
        "the warm-up must be linear from 0 to the peak": 0.5 * (tokens / 1000),
    })  # fmt: skip


def warms_up(learning_rate):
    """the first tenth of 1,000 tokens goes linearly from 0 to the peak"""
    for tokens, expected in ((0.0, 0.0), (50.0, 0.25), (99.0, 0.495), (100.0, 0.5)):
        _compare(learning_rate, tokens, expected)


def falls(learning_rate):
    """then it falls as a cosine to the final share"""
    half = 0.5 * (0.2 + 0.8 * 0.5 * (1 + math.cos(math.pi / 2)))
    for tokens, expected in ((550.0, half), (1000.0, 0.1)):
        _compare(learning_rate, tokens, expected)
