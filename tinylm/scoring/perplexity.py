"""Perplexity, from natural-log losses; per story too, so that intervals can be made from stories."""

import math

import numpy as np


def perplexity(nats: float, tokens: int) -> float:
    """exp(nats / tokens); infinity where a float cannot hold it. Raises ValueError for no token."""
    if tokens < 1:
        raise ValueError("perplexity of no token is not defined")
    try:
        return math.exp(nats / tokens)
    except OverflowError:
        return math.inf


def story_nats(nats: np.ndarray, times: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of the losses of each story of a stream: nats (S,) float64 and scored tokens (S,) int64.

    nats (N,) is what the stream's tokens cost, times (N,) how often each was scored: not at all (the stream's first
    token), once, or in each window that holds it. offsets (S + 1,) are the stories' starts with N at the end; a story
    may be empty. The sums over stories are those over tokens.
    """
    story = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    sums = [np.bincount(story, weights=values, minlength=len(offsets) - 1) for values in (nats, times)]
    return sums[0], sums[1].astype(np.int64)
