"""Sampling against exact probabilities: whole texts of several tokens, all filters at once, by chi-square."""

import functools
import itertools
import math
from collections import Counter

import pytest
import torch

from tinylm.decoding import sampling

SOS, EOS, PAD, UNK = 0, 1, 2, 3
BANNED = [SOS, PAD, UNK]
generate = functools.partial(sampling.generate, eos_id=EOS, banned=BANNED)


def chances(model, ids, chosen, step, steps):
    """Token -> exact probability of being drawn behind `ids`, from the words of the settings alone."""
    with torch.no_grad():
        logits = model(torch.tensor([ids]))[0, -1].double().tolist()
    seen = ids if chosen.repetition_window is None else ids[-chosen.repetition_window :]
    for word in set(seen):
        logits[word] *= chosen.repetition_penalty ** (-1 if logits[word] > 0 else 1)
    temperature = chosen.temperature
    if chosen.temperature_end is not None:
        temperature += (chosen.temperature_end - chosen.temperature) * step / (steps - 1)
    weights = {
        word: math.exp(z / temperature) for word, z in enumerate(logits) if word not in BANNED
    }
    order = sorted(weights, key=lambda word: -weights[word])[: chosen.top_k or None]
    total, kept, mass = sum(weights[word] for word in order), [], 0.0
    for word in order:
        if kept and mass >= chosen.top_p:
            break
        kept.append(word)
        mass += weights[word] / total
    return {word: weights[word] / sum(weights[one] for one in kept) for word in kept}


def joint(model, prompt, chosen, steps):
    """Continuation -> exact probability, of all continuations of `steps` tokens that may end with <eos>."""
    texts = {(): 1.0}
    for step in range(steps):
        grown = {text: p for text, p in texts.items() if text and text[-1] == EOS}
        for text, p in texts.items() - grown.items():
            for word, q in chances(model, [*prompt, *text], chosen, step, steps).items():
                grown[(*text, word)] = p * q
        texts = grown
    return texts


def chi_square(counts: Counter, expected: dict) -> tuple[float, int]:
    """(statistic, degrees of freedom); what is expected less than 5 times stands in one cell."""
    common = {text for text, mean in expected.items() if mean >= 5}
    cells = [(counts[text], expected[text]) for text in sorted(common)]
    rare = sum(expected.values()) - sum(expected[text] for text in common)
    if rare >= 5:
        cells.append((counts.total() - sum(counts[text] for text in common), rare))
    return sum((seen - mean) ** 2 / mean for seen, mean in cells), len(cells) - 1


def quantile_999(freedom: int) -> float:
    """0.999 quantile of chi-square, by Wilson and Hilferty (1931)."""
    return freedom * (1 - 2 / (9 * freedom) + 3.09 * math.sqrt(2 / (9 * freedom))) ** 3


ALL = {"temperature": 0.9, "top_k": 6, "top_p": 0.9, "repetition_penalty": 1.8}
COMBINED = {
    "all": ALL,
    "cooling": ALL | {"temperature": 1.6, "temperature_end": 0.5},
    "window of 1": ALL | {"repetition_window": 1, "top_k": 5},
    "no k": {"temperature": 0.7, "top_k": 0, "top_p": 0.6, "repetition_penalty": 1.4},
}


@pytest.mark.parametrize("changes", COMBINED.values(), ids=COMBINED)
def test_texts_come_as_often_as_their_exact_probability_says(make_model, settings, changes):
    model, chosen, prompt, count = (
        make_model(gain=1.5, end=0.0),
        settings(**changes),
        [SOS, 9, 5],
        4000,
    )
    found = generate(model, [prompt] * count, chosen, max_new_tokens=2)
    counts = Counter(tuple(one.ids) for one in found)
    exact = joint(model, prompt, chosen, 2)
    assert sum(exact.values()) == pytest.approx(1.0)
    assert counts.keys() <= exact.keys()  # what the filters leave out is never drawn
    statistic, freedom = chi_square(counts, {text: p * count for text, p in exact.items()})
    assert freedom >= 5
    assert statistic < quantile_999(freedom)
    for (
        name
    ) in changes:  # the test sees each of the settings: without it the same draws do not pass
        off = {
            "temperature": 1.3,
            "temperature_end": None,
            "top_k": 0,
            "top_p": 1.0,
            "repetition_penalty": 1.0,
        }
        if name == "repetition_window" or changes[name] == off[name]:
            continue
        other = joint(model, prompt, settings(**changes | {name: off[name]}), 2)
        apart = sum(abs(other.get(text, 0.0) - exact.get(text, 0.0)) for text in {*other, *exact})
        assert apart > 0.02, name
        wrong, free = chi_square(counts, {text: p * count for text, p in other.items()})
        assert wrong > quantile_999(free), name


def test_neighbours_and_seeds_are_independent(make_model, settings):
    """Pairs of first tokens of neighbouring rows, and of one row under two seeds, as often as the product says."""
    model, chosen, prompt, count = (
        make_model(gain=1.5, end=0.0),
        settings(top_k=4),
        [SOS, 9, 5],
        4000,
    )
    one = chances(model, prompt, chosen, 0, 1)
    first = [row.ids[0] for row in generate(model, [prompt] * count, chosen, max_new_tokens=1)]
    other = settings(top_k=4, seed=chosen.seed + 1)
    second = [row.ids[0] for row in generate(model, [prompt] * count, other, max_new_tokens=1)]
    for pairs in (list(zip(first[::2], first[1::2])), list(zip(first, second))):
        expected = {(a, b): one[a] * one[b] * len(pairs) for a, b in itertools.product(one, one)}
        statistic, freedom = chi_square(Counter(pairs), expected)
        assert statistic < quantile_999(freedom)
