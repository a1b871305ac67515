from collections import Counter

Pair = tuple[int, int]


def learn_merges(words: list[str], count: int) -> list[Pair]:
    """The pairs that become ids 256, 257, ..., in this order; at most `count`."""
    raise NotImplementedError


def apply_merges(word: str, merges: list[Pair]) -> list[int]:
    """The ids of a word: its bytes, with the merges applied in their order."""
    raise NotImplementedError
