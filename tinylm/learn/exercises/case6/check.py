"""Oracle: the variance of logits of random vectors, and the factor worked out by hand."""

import torch

from tinylm.learn.expect import expect, require, rows


def by_hand(output_factor):
    """vectors of 8 and -8 in 4 columns: the factor is 1/8 * 1/2"""
    given = {"embedding": rows([8.0, -8.0, 8.0, 8.0])}
    expect(output_factor, given, rows(1 / 16)[0], {
        "a sum of D products has variance D: divide by its root": rows(1 / 8)[0],
        "the root of D, not D": rows(1 / 32)[0],
        "divide by the root of D; this multiplies by it": rows(1 / 4)[0],
        "the scale of the vectors is missing": 1 / 2,
        "multiply by input_scale, which is 1/8 here; this divides by it": rows(4.0)[0],
    })  # fmt: skip


def has_variance_one(logits):
    """the logits of random hidden states have standard deviation 1"""
    generator = torch.Generator().manual_seed(1)
    for width in (4, 64, 256):
        for size in (0.2, 3.0):
            embedding = torch.randn(200, width, generator=generator).double() * size
            hidden = torch.randn(200, width, generator=generator).double()
            std = logits(hidden, embedding).std().item()
            require(0.8 < std < 1.25, f"for D = {width} and word vectors of size {size} it is {std:.3g}",
                    "a sum of D products has variance D: divide by its root")  # fmt: skip
