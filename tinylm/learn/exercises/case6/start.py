import torch
from torch import Tensor


def input_scale(embedding: Tensor) -> Tensor:
    """The factor that brings the word vectors (V, D) to mean square 1.  -> ()"""
    return embedding.square().mean().rsqrt()


def output_factor(embedding: Tensor) -> Tensor:
    """The factor on the hidden states, so that the first logits have variance 1.  -> ()"""
    width = embedding.shape[1]
    return input_scale(embedding) * width**0


def logits(hidden: Tensor, embedding: Tensor) -> Tensor:
    """The score of every word.  (N, D), (V, D) -> (N, V)"""
    return (hidden * output_factor(embedding)) @ embedding.T
