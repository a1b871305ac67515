import torch
from torch import Tensor

SPECIALS = ["<sos>", "<eos>", "<pad>", "<unk>"]


def embedding_matrix(
    vocabulary: list[str], vectors: dict[str, list[float]], width: int, seed: int
) -> Tensor:
    """Row i is the vector of token i; see above for tokens without one.  -> (V, D) float32"""
    raise NotImplementedError


def coverage(vocabulary: list[str], vectors: dict[str, list[float]]) -> float:
    """The share of the words, without special tokens, that have a vector."""
    raise NotImplementedError
