"""Could the generator have written a text? Texts are read to their first impossible word."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from tinylm.evaluate.intervals import wilson
from tinylm.evaluate.scoring import value_and_interval
from tinylm.evaluate.settings import Rows
from tinylm.run.evaluated import Plausibility
from tinylm.run.interval import Interval
from tinylm.storybook.truth import Impossible, first_impossible
from tinylm.storybook.world import World

Sample = tuple[str, str, bool]  # prompt, continuation, whether it ended by itself


def read_text(
    prompt: str, continuation: str, ended: bool, world: World
) -> tuple[int, Impossible | None] | None:
    """(words read, the first impossible one or None) of a continuation; None for an impossible prompt.

    It is read to its first impossible word, which counts as read, or to an `<unk>`.
    """
    readable, unknown, _ = continuation.partition("<unk>")
    start = len(world.normalise(prompt).split())
    words = world.normalise(f"{prompt} {readable}").split()
    found = first_impossible(words, ended and not unknown, world)
    if found is None:
        return len(words) - start, None
    return (found.words - start + 1, found) if found.words >= start else None


def possible(texts: Iterable[Sample], world: World) -> Interval | None:
    """The share of texts without an impossible word, with Wilson's interval; None without a text."""
    found = [read for read in (read_text(*text, world) for text in texts) if read is not None]
    return wilson(sum(error is None for _, error in found), len(found))


def measure_plausibility(samples: pd.DataFrame, world: World) -> tuple[Plausibility, Rows]:
    """(the measurements, a row for each sample with an impossible word).

    The kind of an impossible word is that of the words that the generator could have chosen there.
    """
    read = []  # for each text: (words read, whether one is impossible)
    rows = []
    columns = samples[["prompt", "continuation", "finished"]]
    for number, (prompt, continuation, ended) in enumerate(columns.itertuples(index=False)):
        found = read_text(prompt, continuation, ended, world)
        if found is None:
            continue
        words, error = found
        read.append((words, error is not None))
        if error is not None:
            row = {"sample": number, "word": error.word, "kind": error.kind}
            rows.append(row | {"instead": ", ".join(error.expected)})
    kinds = [row["kind"] for row in rows]
    plausibility = Plausibility(
        texts=len(read),
        possible=wilson(len(read) - len(rows), len(read)),
        words=value_and_interval(read, _words_per_error) if rows else None,
        kinds={kind: kinds.count(kind) for kind in world.meaning},
    )
    return plausibility, rows


def _words_per_error(means: np.ndarray) -> np.ndarray:
    return means[..., 0] / np.maximum(means[..., 1], 1e-9)
