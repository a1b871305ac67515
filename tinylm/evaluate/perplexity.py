"""Perplexity, from natural-log losses; per story too, so that intervals can be computed over stories."""

import math

import numpy as np


def perplexity(nats: float, tokens: int) -> float:
    """exp(nats / tokens); infinity if it exceeds a float. Raises ValueError without a token."""
    if tokens < 1:
        raise ValueError("perplexity of no token is not defined")
    try:
        return math.exp(nats / tokens)
    except OverflowError:
        return math.inf


def story_nats(
    nats: np.ndarray, times: np.ndarray, offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sums of the losses of each story of a stream: nats (S,) float64 and scored tokens (S,) int64.

    nats (N,) are the losses of the stream's tokens, times (N,) how often each was scored: never (the stream's first
    token), once, or in each window that contains it. offsets (S + 1,) are the stories' starts, then N; a story
    may be empty. The totals over stories equal those over tokens.
    """
    story = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    sums = [
        np.bincount(story, weights=values, minlength=len(offsets) - 1) for values in (nats, times)
    ]
    return sums[0], sums[1].astype(np.int64)
