"""Sections on seed variation and memorisation: how far seeds move figures, whether text is copied from train."""

from collections.abc import Sequence
from typing import Any

from tinylm.report.blocks import Blocks, fold, gallery, paragraph, picture, record_table, table
from tinylm.report.sources import Run, as_number
from tinylm.report.wording import (
    ABSENT,
    count,
    figure,
    loss,
    many,
    share,
    share_with_interval,
    visible,
    with_interval,
)

FIGURES = {  # of metrics/seeds.json: what it is called, how it is written
    "perplexity": ("perplexity on evaluation", figure),
    "nats_per_token": ("nats per token", loss),
    "bits_per_byte": ("bits per byte, normalised text", loss),
    "raw_bits_per_byte": ("bits per byte, raw text", loss),
    "held_out_loss": ("held-out loss", loss),
}
SHOWN = 5  # continuations with the longest runs
LEAST = 4  # digits of a spread


def seeds(run: Run) -> Blocks:
    """Mean, standard deviation and what a difference between two runs has to exceed; empty with one seed."""
    trained = as_number(run.get("seeds", "n"))
    if trained is None or trained < 2:
        return []
    found = {name: run.mapping("seeds", name) for name in FIGURES}
    spread = {
        FIGURES[name][0]: [
            FIGURES[name][1](row.get("mean")),
            figure(row.get("sd"), LEAST),
            figure(row.get("difference"), LEAST),
        ]
        for name, row in found.items()
        if row
    }
    by_seed = {
        f"seed {seed}": [write(row.get(name)) for name, (_, write) in FIGURES.items()]
        for seed, row in run.table("seeds", "by_seed").items()
    }
    note = (
        f"The same training with {many(trained, 'seed')}: other first weights and another order of the stories; "
        "vocabulary, vectors and splits stay. “A difference” is what 95 % of the differences between two runs stay "
        "below that differ in nothing but their seed (t · √2 · standard deviation); a smaller one says nothing."
    )
    return (
        paragraph(note)
        + gallery(
            picture("seed_losses", "The held-out loss on the way, one line per seed."),
            record_table(
                "Statistics over seeds",
                "figure",
                spread,
                ["mean", "standard deviation", "significant difference"],
            ),
        )
        + record_table("Each seed", "seed", by_seed, [words for words, _ in FIGURES.values()])
    )


def memorised(run: Run) -> Blocks:
    """Longest runs, new n-grams and nearest stories of train, beside the stories' own continuations."""
    sides = [run.mapping("evaluate", "memorised", key) for key in ("continuations", "references")]
    if not any(sides):
        return []
    protocol = visible(run.get("evaluate", "memorised", "protocol") or "")
    stories = count(run.get("evaluate", "memorised", "train_stories"))
    heads = ["continuations", "the stories' own"]

    def both(key: str, write: Any) -> list[str]:
        return [write(side.get(key)) for side in sides]

    rows = {
        "texts": both("count", count),
        "words": both("words", count),
        "longest run, mean": both("longest_run", with_interval),
        "longest run, median": both("longest_run_median", figure),
        "longest run of all": both("longest_run_largest", count),
        "whole texts in train": both("whole", count),
        "nearest story holds": both("overlap", share_with_interval),
    }
    orders = sorted({n for side in sides for n in side.get("new", {})}, key=int)
    new = {
        many(int(n), "word"): [share_with_interval(side.get("new", {}).get(n)) for side in sides]
        for n in orders
    }
    return (
        paragraph(protocol, f"Train has {stories} stories." if stories != ABSENT else "")
        + gallery(
            picture("new_ngrams", "The bands are 95 % intervals over texts."),
            record_table("Shared with train", "figure", rows, heads),
        )
        + record_table("n-grams not in the training split", "of", new, heads)
        + _closest(run.rows("memorised"))
    )


def _closest(rows: Sequence[dict[str, Any]]) -> Blocks:
    """The continuations with the longest runs, the run and the nearest story of each."""
    own = [row for row in rows if row.get("text") == "continuation"]
    own.sort(key=lambda row: -(as_number(row.get("longest_run")) or 0.0))
    heads = ["prompt", "words", "longest run", "the run", "nearest story holds"]
    cells = [
        [
            visible(row.get("prompt", "")),
            count(row.get("words")),
            count(row.get("longest_run")),
            visible(row.get("run", "")),
            share(row.get("overlap")),
        ]
        for row in own[:SHOWN]
    ]
    nearest = [
        [
            visible(row.get("prompt", "")),
            count(row.get("nearest_story")),
            visible(row.get("nearest", "")),
        ]
        for row in own[:SHOWN]
        if row.get("nearest")
    ]
    told = table(
        "Their nearest stories of train",
        ["prompt", "number", "story"],
        nearest,
        prose=["prompt", "story"],
    )
    return table(
        "Continuations with the longest runs",
        heads,
        cells,
        prose=["prompt", "the run"],
        stacked=True,
    ) + fold(f"The nearest stories of these {len(nearest)}", told, on_paper=False)
