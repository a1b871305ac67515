import string
from collections import Counter

SPECIALS = ["<sos>", "<eos>", "<pad>", "<unk>"]


def split(text: str) -> list[str]:
    """The words of a text: lower case, without punctuation."""
    raise NotImplementedError


def build_vocabulary(texts: list[str], max_words: int | None = None) -> list[str]:
    """The special tokens, then the words, most frequent first; equal counts in alphabetical order."""
    raise NotImplementedError


def encode(text: str, vocabulary: list[str]) -> list[int]:
    """<sos>, the ids of the words, <eos>."""
    raise NotImplementedError


def decode(ids: list[int], vocabulary: list[str]) -> str:
    """The words joined by spaces, without <sos>, <eos> and <pad>."""
    raise NotImplementedError
