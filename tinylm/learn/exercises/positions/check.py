"""Oracle: the formula with Python's math, one number at a time."""

import math

import torch

from tinylm.learn.expect import expect


def _table(
    context, width, angle=lambda t, i, d: t / 10000 ** (2 * i / d), halves=False, swap=False
):
    rows = []
    for t in range(context):
        row = []
        for column in range(width):
            pair = column % ((width + 1) // 2) if halves else column // 2
            is_sine = column < (width + 1) // 2 if halves else column % 2 == 0
            function = math.sin if is_sine != swap else math.cos
            row.append(function(angle(t, pair, width)))
        rows.append(row)
    return torch.tensor(rows, dtype=torch.float64).float().reshape(context, width)


def _compare(sinusoids, context, width):
    suspects = {
        "sines and cosines alternate; yours stand in two halves": _table(
            context, width, halves=True
        ),
        "even columns are sines, odd ones cosines": _table(context, width, swap=True),
        "the exponent is 2 i / D for pair i; yours is i / D": _table(
            context, width, lambda t, i, d: t / 10000 ** (i / d)
        ),
        "the exponent is 2 i / D; yours doubles it once more": _table(
            context, width, lambda t, i, d: t / 10000 ** (4 * i / d)
        ),
        "position counts from 0": _table(
            context, width, lambda t, i, d: (t + 1) / 10000 ** (2 * i / d)
        ),
    }
    expect(sinusoids, {"context": context, "width": width}, _table(context, width), suspects, 2e-6)


def row_zero(sinusoids):
    """row 0 is 0, 1, 0, 1"""
    _compare(sinusoids, 1, 4)


def small_tables(sinusoids):
    """small tables equal the formula"""
    for context, width in ((2, 2), (3, 4), (5, 6)):
        _compare(sinusoids, context, width)


def odd_width(sinusoids):
    """an odd width ends with a sine"""
    _compare(sinusoids, 2, 3)
    _compare(sinusoids, 3, 1)


def far_positions(sinusoids):
    """far positions are exact in float32"""
    width = 4
    expected = _table(20_000, width)
    answer = sinusoids(20_000, width)
    last = {"context": 20_000, "width": width}
    expect(lambda *_: answer[-1:] if answer.ndim == 2 else answer, last, expected[-1:],
           {"compute the angles in float64; float32 has only 7 digits": answer[-1:]}, 2e-6)  # fmt: skip
