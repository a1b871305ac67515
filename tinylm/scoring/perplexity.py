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


def story_nats(token_nats: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of the losses of each story of a stream: nats (S,) float64 and scored tokens (S,) int64.

    token_nats (N - 1,) are the losses of tokens 1 to N - 1 of the stream (token 0 has nothing before it and is
    not scored), offsets (S + 1,) the stories' starts with N at the end. Raises ValueError where they disagree.
    """
    lengths = np.diff(offsets)
    if len(token_nats) != max(lengths.sum() - 1, 0):
        raise ValueError(f"{len(token_nats)} losses for a stream of {lengths.sum()} tokens; allowed: one fewer")
    story = np.repeat(np.arange(len(lengths)), lengths)[1:]  # (N - 1,)
    nats = np.bincount(story, weights=token_nats, minlength=len(lengths))
    return nats, np.bincount(story, minlength=len(lengths))
