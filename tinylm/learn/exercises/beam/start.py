from collections.abc import Callable


def beam_search(
    log_probs: Callable[[list[int]], list[float]],
    width: int, max_length: int, eos: int, alpha: float,
) -> tuple[list[int], float]:  # fmt: skip
    """(ids, score) of the best finished text; score = sum of log-probabilities / length ** alpha."""
    raise NotImplementedError
