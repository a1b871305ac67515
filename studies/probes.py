"""Linear probes: logistic regressions from the residual stream to a label, with their control tasks.

They are trained and tested on different groups of positions, such as stories or names.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

TEST, VALIDATION = 3, 4  # test: one group in three; choice of the L2 penalty: one in four others
STRENGTHS = (1e-3, 1e-2, 1e-1)  # of the L2 penalty
ITERATIONS = 60


class Examples(NamedTuple):
    """N positions: (L + 1, N, D) streams; (N,) labels, words as ids, and numbers of stories and names."""

    streams: Tensor
    labels: Tensor
    words: Tensor
    stories: Tensor
    names: Tensor


def examples_of(rows: Sequence[tuple[Any, ...]]) -> Examples:
    """From rows of (L + 1, D) stream, label, word, number of the story, and name."""
    vectors, labels, words, stories, names = zip(*rows, strict=True)
    return Examples(
        torch.stack(vectors, dim=1),
        _numbered(labels),
        torch.tensor(words),
        torch.tensor(stories),
        _numbered(names),
    )


def _numbered(values: Sequence[str]) -> Tensor:
    order = sorted(set(values))
    return torch.tensor([order.index(value) for value in values])


def fit(x: Tensor, labels: Tensor, classes: int, strength: float) -> nn.Linear:
    """Logistic regression with an L2 penalty, by L-BFGS.  (N, D), (N,) -> a layer from D inputs to one output for each class"""
    probe = nn.Linear(x.shape[1], classes)
    nn.init.zeros_(probe.weight)
    nn.init.zeros_(probe.bias)
    optimizer = torch.optim.LBFGS(
        probe.parameters(),
        max_iter=ITERATIONS,
        tolerance_change=1e-5,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        penalty = strength / 2 * probe.weight.square().sum()
        loss: Tensor = F.cross_entropy(probe(x), labels) + penalty
        loss.backward()
        return loss

    optimizer.step(closure)
    return probe.requires_grad_(False)


def accuracy(probe: nn.Linear, x: Tensor, labels: Tensor) -> float:
    return (probe(x).argmax(1) == labels).double().mean().item()


def train_probe(x: Tensor, labels: Tensor, groups: Tensor) -> nn.Linear:
    """A probe trained on all groups, with the L2 penalty that does best on a part of them."""
    classes = int(labels.max()) + 1
    held_out = groups % VALIDATION == 0
    scores = {}
    for strength in STRENGTHS:
        probe = fit(x[~held_out], labels[~held_out], classes, strength)
        scores[strength] = accuracy(probe, x[held_out], labels[held_out])
    return fit(x, labels, classes, max(scores, key=scores.__getitem__))


def control_labels(labels: Tensor, words: Tensor) -> Tensor:
    """A random label for each word, as frequent as the labels are."""
    generator = torch.Generator().manual_seed(1)
    drawn = torch.randint(len(labels), (int(words.max()) + 1,), generator=generator)
    return labels[drawn[words]]


def probed(examples: Examples, groups: Tensor) -> Iterator[dict[str, float]]:
    """For each layer, the accuracies of the probe, of its control and of the most frequent label."""
    test = groups % TEST == 0
    train = ~test
    labels = examples.labels
    control = control_labels(labels, examples.words)
    majority = (labels[test] == labels[train].mode()[0]).double().mean().item()
    for layer, x in enumerate(examples.streams):
        row = {"layer": layer, "majority": majority}
        for name, wanted in (("accuracy", labels), ("control", control)):
            probe = train_probe(x[train], wanted[train], groups[train] // TEST)
            row[name] = accuracy(probe, x[test], wanted[test])
        yield row


class Flip(NamedTuple):
    """What moves a vector to the other of two labels: a probe's unit direction (D,), and the labels' means along it."""

    direction: Tensor
    means: Tensor

    def moved(self, x: Tensor, label: int, along: Tensor) -> Tensor:
        """Move (..., D) along a unit vector, as far as the label's mean is away along the probe's direction."""
        distance = self.means[label] - x @ self.direction
        return x + distance[..., None] * along


def flips(examples: Examples) -> list[Flip]:
    """The flip before each layer, and after the last, from the train part."""
    train = examples.stories % TEST != 0
    labels = examples.labels[train]
    found = []
    for stream in examples.streams:
        x = stream[train]
        probe = train_probe(x, labels, examples.stories[train] // TEST)
        direction = F.normalize(probe.weight[1] - probe.weight[0], dim=0)
        means = [(x[labels == label] @ direction).mean() for label in (0, 1)]
        found.append(Flip(direction, torch.stack(means)))
    return found
