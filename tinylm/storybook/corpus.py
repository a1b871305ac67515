"""The embedded corpus: stories for small children, each with the exact log-probability of its words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tinylm.storybook.chooser import Sampler
from tinylm.storybook.telling import tell

_DROPPED = re.compile(r"[^a-z ]+")


@dataclass(frozen=True)
class Story:
    """text: plain ASCII prose in one paragraph; log_prob: ln P(text) in nats, rounded to 6 decimals."""

    text: str
    log_prob: float


def normalise(text: str) -> str:
    """Lower case, letters and spaces only: the form in which stories are compared and scored."""
    return _DROPPED.sub("", text.lower())


def generate(train: int, evaluation: int, seed: int) -> tuple[Iterator[Story], Iterator[Story]]:
    """(train stories, evaluation stories): all different, none in both, the same for a seed on every machine.

    Evaluation is drawn first, train while it is read. A story drawn twice is dropped and the next one used. That
    changes log_prob by no more than the probability mass of the dropped stories, which is below e^-40 each.
    """
    seen: set[str] = set()
    held = list(_different(evaluation, f"storybook evaluation {seed}", seen))
    return _different(train, f"storybook train {seed}", seen), iter(held)


def _different(count: int, seed: str, seen: set[str]) -> Iterator[Story]:
    sampler = Sampler(seed)
    while count > 0:
        sampler.log_prob = 0.0
        text, _ = tell(sampler)
        key = normalise(text)
        if key not in seen:
            seen.add(key)
            count -= 1
            yield Story(text, round(sampler.log_prob, 6))
