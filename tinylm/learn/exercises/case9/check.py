"""Oracle: the definition in Python floats, one word at a time."""

import math

import torch

from tinylm.learn.expect import drawn, expect, rows


def _kept(row, p):
    q = row.softmax(-1).tolist()
    order = sorted(range(len(q)), key=lambda i: (-q[i], i))
    kept = [order[0]]
    while sum(q[i] for i in kept) < p and len(kept) < len(q):
        kept.append(order[len(kept)])
    return kept


def _compare(top_p, logits, p):
    expected = torch.full_like(logits, -math.inf)
    too_few = torch.full_like(logits, -math.inf)
    for number, row in enumerate(logits):
        kept = _kept(row, p)
        expected[number, kept] = row[kept]
        too_few[number, kept[:-1]] = row[kept[:-1]]
    with_last = too_few.clone()
    for number, row in enumerate(logits):
        least = int(row.argmin())
        with_last[number, least] = row[least]
    not_likely = expected.clone()
    for number, row in enumerate(logits):
        least = int(row.argmin())
        not_likely[number, least] = row[least]
    given = {"probabilities": logits.softmax(-1), "p": p}
    expect(lambda *_: top_p(logits.clone(), p).exp(), given, expected.exp(), {
        "the likeliest word is dropped; the word that crosses p must stay": with_last.exp(),
        "the word that crosses p must stay": too_few.exp(),
        "the sum is right; but which word does the line after it always keep?": not_likely.exp(),
    })  # fmt: skip


def one_certain_word(top_p):
    """a word with more than p stays, alone"""
    _compare(top_p, rows([0.95, 0.03, 0.02]).log(), 0.9)


def crosses(top_p):
    """the word that crosses p stays"""
    _compare(top_p, rows([0.5, 0.3, 0.2]).log(), 0.6)
    _compare(top_p, rows([0.2, 0.5, 0.3]).log(), 0.4)


def random_rows(top_p):
    """random rows, each by itself"""
    for seed in range(3):
        _compare(top_p, drawn(seed, 3, 6), 0.7)
