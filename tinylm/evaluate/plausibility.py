"""Could the generator have written the samples? Each is read to its first impossible word."""

import pandas as pd

from tinylm.evaluate.intervals import words_per_error
from tinylm.evaluate.scoring import value_and_interval
from tinylm.evaluate.settings import Rows
from tinylm.run.evaluated import Plausibility
from tinylm.run.interval import wilson
from tinylm.storybook.truth import read_text
from tinylm.storybook.world import World


def measure_plausibility(
    samples: pd.DataFrame, world: World, pieces: bool
) -> tuple[Plausibility, Rows]:
    """(the measurements, a row for each sample with an impossible word).

    pieces: tokens are pieces of words, see `read_text`.
    The kind of an impossible word is that of the words that the generator could have chosen there.
    """
    read = []  # for each text: (words read, whether one is impossible)
    rows = []
    columns = samples[["prompt", "continuation", "finished"]]
    for number, (prompt, continuation, ended) in enumerate(columns.itertuples(index=False)):
        found = read_text(prompt, continuation, ended, world, pieces)
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
        words=value_and_interval(read, words_per_error) if rows else None,
        kinds={kind: kinds.count(kind) for kind in world.meaning},
    )
    return plausibility, rows
