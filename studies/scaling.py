"""A scaling law fitted to the runs of a study: how the loss falls with the model's size and its budget.

L(N, D) = E + A / N^a + B / D^b (Hoffmann et al. 2022, arXiv:2203.15556): L is the loss in nats per token, N the
number of parameters without the embedding, D the number of tokens seen. E is the part of the loss that neither a larger
model nor more text removes. For stories of the storybook its true value is known: the generator's own surprise at the
same stories.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from tinylm.base import paths
from tinylm.base.config import InputError
from tinylm.evaluate.significance import ALPHA
from tinylm.evaluate.truth import problem_with, read_words, true_surprise, true_tokens
from tinylm.report import render
from tinylm.run.interval import student_critical_value
from tinylm.storybook.language import END
from tinylm.text.stories import read_texts
from tinylm.vocab.open_tokenizer import open_tokenizer

EXPONENTS = np.arange(0.01, 2.0, 0.01)  # of both terms
FLOOR_STEP = 0.01  # nats between the values of E that are tried
FREE = 5  # parameters of the law
RUN_COLUMNS = ("setting", "parameters N", "tokens D", "validation loss", "loss by the law")


def generator_loss() -> float:
    """The generator's surprise at the held-out stories of this folder, in nats per token.

    Raises InputError if the vocabulary or a story is not from the storybook.
    """
    tokenizer = open_tokenizer(paths.TOKENIZER)
    if problem := problem_with(tokenizer):
        raise InputError(f"{paths.TOKENIZER}: {problem}")
    nats = 0.0
    tokens = 0
    for number, text in enumerate(read_texts(paths.STORIES, "held_out"), start=1):
        *positions, (last, _) = read_words([*tokenizer.split(text), END])
        if last:
            place = f"{paths.STORIES}: held-out story {number}"
            raise InputError(f"{place} contains {last!r}, which is impossible there")
        targets = np.array(tokenizer.encode_story(text))[1:]
        nats += true_surprise(true_tokens(tokenizer, positions), targets).sum()
        tokens += len(targets)
    return nats / tokens


@dataclass(frozen=True)
class Law:
    """A fitted law, with its letters spelt out, and the sum of its squared relative errors."""

    floor: float  # E
    size_factor: float  # A
    size_exponent: float  # a
    tokens_factor: float  # B
    tokens_exponent: float  # b
    squares: float

    def loss(self, sizes: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """L(N, D) in nats per token."""
        of_size = self.size_factor * sizes**-self.size_exponent
        of_tokens = self.tokens_factor * tokens**-self.tokens_exponent
        return self.floor + of_size + of_tokens


def fit_above(floor: float, sizes: np.ndarray, tokens: np.ndarray, losses: np.ndarray) -> Law:
    """The law with this floor whose squared relative errors have the smallest sum.

    Both exponents are searched on a grid. For each pair the two factors follow from linear least squares, and must not be
    negative; if no pair has such factors, squares is infinite. sizes, tokens, losses: (runs,).
    """
    by_size = sizes ** -EXPONENTS[:, None] / losses  # (exponents, runs)
    by_tokens = tokens ** -EXPONENTS[:, None] / losses
    above = 1 - floor / losses
    # the normal equations of two unknowns, for all pairs of exponents (a, b)
    aa = (by_size**2).sum(1)[:, None]
    bb = (by_tokens**2).sum(1)[None, :]
    ab = by_size @ by_tokens.T
    a_above = (by_size @ above)[:, None]
    b_above = (by_tokens @ above)[None, :]
    determinant = aa * bb - ab**2
    size_factors = (a_above * bb - b_above * ab) / determinant
    tokens_factors = (b_above * aa - a_above * ab) / determinant
    squares = above @ above - size_factors * a_above - tokens_factors * b_above
    squares = np.maximum(squares, 0.0)  # rounding
    squares[(size_factors < 0) | (tokens_factors < 0)] = np.inf
    row, column = np.unravel_index(squares.argmin(), squares.shape)
    return Law(
        floor,
        float(size_factors[row, column]),
        float(EXPONENTS[row]),
        float(tokens_factors[row, column]),
        float(EXPONENTS[column]),
        float(squares[row, column]),
    )


@dataclass(frozen=True)
class Fit:
    """The best law, and the interval of its floor."""

    law: Law
    low: float
    high: float


def fit(sizes: np.ndarray, tokens: np.ndarray, losses: np.ndarray) -> Fit:
    """The least-squares law, and the 95 % profile interval of its floor.

    The interval contains the floors whose best law is not significantly worse (F-test with one degree of freedom), which
    presumes that the form of the law is right. Only floors from 0 to the lowest loss are tried.
    """
    floors = np.arange(0.0, losses.min(), FLOOR_STEP)
    laws = [fit_above(float(floor), sizes, tokens, losses) for floor in floors]
    best = min(laws, key=lambda law: law.squares)
    left = len(losses) - FREE
    allowed = best.squares * (1 + student_critical_value(ALPHA, left) ** 2 / left)
    inside = [law.floor for law in laws if law.squares <= allowed]
    return Fit(best, min(inside), max(inside))


def _columns(result: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sizes, tokens and losses of the runs of a study that did not diverge. Raises InputError if there are too few."""
    runs = result[result["diverged"] == 0]
    names = ("block_parameters", "tokens", "held_out_loss")
    if len(runs) < FREE + 2:  # each is left out once
        raise InputError(f"expected at least {FREE + 2} runs to fit a law, got {len(runs)}")
    sizes, tokens, losses = (runs[name].to_numpy(float) for name in names)
    return sizes, tokens, losses


def floors_without_one(
    sizes: np.ndarray, tokens: np.ndarray, losses: np.ndarray
) -> Iterator[float]:
    """The floor of a fit without one of the runs, for each of them."""
    for left_out in range(len(losses)):
        others = np.arange(len(losses)) != left_out
        yield fit(sizes[others], tokens[others], losses[others]).law.floor


def law_tables(result: pd.DataFrame) -> Markup:
    """The fitted law, its floor beside the generator's own surprise, and a row for each run."""
    settings = result["setting"][result["diverged"] == 0]
    sizes, tokens, losses = _columns(result)
    found = fit(sizes, tokens, losses)
    law = found.law
    others = list(floors_without_one(sizes, tokens, losses))
    error = math.sqrt(law.squares / len(losses))
    facts: list[tuple[str, Any]] = [
        ("E, the law's floor", f"{law.floor:.2f} ({found.low:.2f} to {found.high:.2f})"),
        ("the generator's own surprise", f"{result['generator_loss'].iloc[0]:.3f}"),
        ("E if one of the runs is left out", f"{min(others):.2f} to {max(others):.2f}"),
        ("A, a", f"{law.size_factor:.3g}, {law.size_exponent:.2f}"),
        ("B, b", f"{law.tokens_factor:.3g}, {law.tokens_exponent:.2f}"),
        ("error of the law, root mean square", f"{100 * error:.1f} %"),
    ]
    rows = []
    columns = (settings, sizes, tokens, losses, law.loss(sizes, tokens))
    for setting, size, budget, loss, by_law in zip(*columns, strict=True):
        rows.append((setting, f"{size:,.0f}", f"{budget:,.0f}", f"{loss:.3f}", f"{by_law:.3f}"))
    return Markup(f"{render.facts(facts)}{render.table(RUN_COLUMNS, rows)}")
