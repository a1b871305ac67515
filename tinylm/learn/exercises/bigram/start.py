from collections import Counter
from collections.abc import Callable


def bigram(text: list[str], discount: float) -> Callable[[str, str], float]:
    """P(w, h): the probability of the word w after the word h."""
    raise NotImplementedError
