"""A comparison as Markdown, for the page and the terminal."""

from pathlib import Path

from tinylm.experiments.comparison import OTHER_SEEDS, Comparison, Row
from tinylm.report import render
from tinylm.report.wording import MINUS, many, number

TEMPLATE = Path(__file__).with_name("compare.md.j2")
HEADS = ("run", "seeds", "perplexity", "difference (95 % interval)", "over", "verdict")


def to_markdown(comparison: Comparison) -> str:
    """The comparison as Markdown."""
    first = comparison.results[0]
    seeds = _seeds(comparison.first_seeds)
    cells: list[tuple[str, ...]] = [
        (first.name, seeds, number(first.perplexity, 5), "", "", "(the reference)")
    ]
    cells += [_cells(row) for row in comparison.rows]
    return render.render(
        TEMPLATE,
        title=f"Comparison with {first.name}",
        table_of_runs=render.table(HEADS, cells),
        comparison=comparison,
        other_seeds=OTHER_SEEDS,
        first=first.name,
    )


def _cells(row: Row) -> tuple[str, ...]:
    perplexity = number(row.perplexity, 5)
    if row.difference is None:
        return row.name, _seeds(row.seeds), perplexity, "", "", row.verdict
    value, low, high = map(signed, (row.difference.value, row.difference.low, row.difference.high))
    unit = "" if row.metric == "perplexity" else f" {row.metric}"
    difference = f"{value}{unit} ({low} to {high})"
    over = many(row.difference.texts, "text")
    if row.compared_seeds:
        over += f", seed{'s' if len(row.compared_seeds) > 1 else ''} {_seeds(row.compared_seeds)}"
    return row.name, _seeds(row.seeds), perplexity, difference, over, row.verdict


def _seeds(seeds: list[int]) -> str:
    return ", ".join(map(str, seeds))


def signed(value: float) -> str:
    """A difference with its sign: +0.12, −3.40."""
    text = number(value)
    return text if text.startswith(MINUS) or value == 0 else f"+{text}"
