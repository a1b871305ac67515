"""Oracle: the definition in Python floats, one word at a time."""

import math

import torch

from tinylm.learn.expect import drawn, expect, require, rows


def _plain(logits, temperature, top_k, top_p, strict=False, first=True, p_before_t=False):
    z = logits.tolist()
    order = sorted(range(len(z)), key=lambda i: (-z[i], i))
    if temperature == 0:
        return torch.tensor([float(i == order[0]) for i in range(len(z))], dtype=logits.dtype)
    left = order[: top_k or len(z)]

    def softmax(t):
        e = {i: math.exp((z[i] - z[order[0]]) / t) for i in left}
        return {i: value / sum(e.values()) for i, value in e.items()}

    q = softmax(1.0 if p_before_t else temperature)
    nucleus = []
    total = 0.0
    for i in left if first else left[::-1]:
        crosses = total + q[i] > _p_limit(top_p) if strict else total >= _p_limit(top_p)
        if crosses:
            break
        nucleus.append(i)
        total += q[i]
    q = softmax(temperature)
    total = sum(q[i] for i in nucleus) or 1.0
    return torch.tensor(
        [q[i] / total if i in nucleus else 0.0 for i in range(len(z))], dtype=logits.dtype
    )


def _p_limit(top_p):
    return math.inf if top_p == 1.0 else top_p


def _compare(probabilities, logits, temperature=1.0, top_k=0, top_p=1.0):
    given = {"logits": logits, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    full = _plain(logits, temperature or 1.0, top_k, 1.0)
    kept = _plain(**given) > 0
    expect(probabilities, given, _plain(**given), {
        "the word that crosses p is dropped; keep it": _plain(**given, strict=True),
        "top-p begins with the least likely words": _plain(**given, first=False),
        "divide by the sum of what is left": full * kept,
        "the probabilities are multiplied by T; divide the logits by it": _plain(
            logits, 1 / (temperature or 1.0), top_k, top_p
        ),
        "of equal logits, the lower id comes first": _plain(
            logits.flip(0), temperature, top_k, top_p
        ).flip(0),
        "the temperature is not used": _plain(logits, 1.0, top_k, top_p),
        "top-p uses the probabilities before the temperature": _plain(**given, p_before_t=True),
        "top_k = 0 keeps all": full * 0,
        "top-k is not used": _plain(logits, temperature, 0, top_p),
        "top-p is not used": full,
    })  # fmt: skip


def with_temperature(probabilities):
    """temperature divides the logits"""
    _compare(probabilities, rows(0.0, math.log(3)), 1.0)
    _compare(probabilities, rows(0.0, math.log(3)), 0.5)
    _compare(probabilities, drawn(1, 5), 2.0)


def greedy(probabilities):
    """temperature 0 is greedy"""
    _compare(probabilities, rows(1.0, 3.0, 2.0), 0.0)
    _compare(probabilities, rows(1.0, 3.0, 3.0), 0.0)


def top_k_words(probabilities):
    """top-k keeps the k likeliest words"""
    _compare(probabilities, rows(1.0, 3.0, 2.0), top_k=2)
    _compare(probabilities, drawn(2, 6), 0.7, top_k=3)
    _compare(probabilities, drawn(2, 3), top_k=9)


def equal_logits(probabilities):
    """of equal logits, top-k keeps the lower ids"""
    _compare(probabilities, rows(1.0, 2.0, 2.0, 2.0), top_k=2)


def top_p_words(probabilities):
    """top-p keeps the fewest words that sum to p"""
    logits = rows(0.5, 0.3, 0.2).log()
    _compare(probabilities, logits, top_p=0.6)
    _compare(probabilities, logits, top_p=0.1)
    _compare(probabilities, drawn(3, 6), top_p=0.8)


def all_together(probabilities):
    """top-k, then temperature, then top-p"""
    for seed in range(4):
        _compare(probabilities, drawn(seed, 8), 0.8, 5, 0.7)


def draws(draw):
    """draw picks the first index whose cumulative probability exceeds u"""
    p = rows(0.25, 0.5, 0.25)
    for u, word in ((0.0, 0), (0.3, 1), (0.25, 1), (0.74, 1), (0.76, 2), (0.999999, 2)):
        expect(
            draw,
            {"p": p, "u": u},
            word,
            {
                "return a Python int": torch.tensor(word),
                "the sum must exceed u; being equal is not enough": word - 1,
            },
        )


def never_impossible(draw):
    """a word of probability 0 is never drawn"""
    expect(
        draw,
        {"p": rows(0.0, 1.0, 0.0), "u": 0.0},
        1,
        {"the sum must exceed u; being equal is not enough": 0},
    )
    p = torch.tensor([0.35, 0.65, 0.0, 0.0])  # float32: their sum is below 1
    word = draw(p, 1 - 2**-53)
    require(isinstance(word, int) and word < 2, f"u just below 1 draws {word}, which has probability 0",
            "sum in float64, and multiply u by the last sum, which rounding leaves below 1", p=p)  # fmt: skip
