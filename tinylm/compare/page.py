"""A comparison as Markdown, for the page and the terminal, and as JSON."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from tinylm.compare.comparison import (
    BITS,
    BLEU,
    MINIMAL_PAIRS,
    PERPLEXITY,
    RAW_BITS,
    Against,
    Comparison,
)
from tinylm.compare.runs import RevisionResult
from tinylm.evaluate.differences import RESAMPLES
from tinylm.evaluate.statistics import LEVEL
from tinylm.report import render
from tinylm.report.sources import as_number
from tinylm.report.wording import (
    ABSENT,
    MINUS,
    count,
    interval,
    loss,
    many,
    number,
    setting,
    share,
    with_interval,
)

TEMPLATE = Path(__file__).with_name("compare.md.j2")
SIDE_BY_SIDE = 4  # up to this number, runs are columns; with more, each is a row
NOTHING = "(it ends there)"  # an empty continuation
LABELS = {
    PERPLEXITY: "perplexity",
    RAW_BITS: "bits per byte, raw text",
    BITS: "bits per byte, normalised text",
    BLEU: "BLEU-4",
    MINIMAL_PAIRS: "minimal pairs, right (mean over phenomena)",
}
OVER = {BLEU: "prompts", MINIMAL_PAIRS: "draws of pairs"}  # the other metrics are over stories


def _four_digits(value: Any) -> str:
    return number(value, 4)


METRICS: dict[str, tuple[str, Callable[[Any], str]]] = {
    # where a metric is in metrics/STAGE.json: its label and its format
    "evaluate.perplexity": ("perplexity", _four_digits),
    "evaluate.raw_bits_per_byte": ("bits per byte, raw text", _four_digits),
    "evaluate.bits_per_byte": ("bits per byte, normalised text", _four_digits),
    "evaluate.samples.bleu4": ("BLEU-4", number),
    "evaluate.baselines.kneser_ney.perplexity": ("Kneser-Ney's perplexity", _four_digits),
    "evaluate.sense.methods.decode.words": ("words per error", number),
    "evaluate.pairs.all.model": (LABELS[MINIMAL_PAIRS], share),
    "train.held_out_loss_best": ("held-out loss", loss),
    "train.train_loss": ("train loss", loss),
    "train.parameters": ("parameters", count),
    "train.tokens": ("tokens seen", count),
}


def metric_of(run: RevisionResult, key: str) -> dict[str, float]:
    """value, and low and high of its own 95 % interval where it has one; {} if it is missing."""
    keys = key.split(".")
    entry = run.value(*keys)
    named_interval = run.value(*keys[:-1], f"{keys[-1]}_interval")
    ends = interval(entry) or interval(named_interval)
    value = as_number(entry.get("value") if isinstance(entry, dict) else entry)
    if value is None:
        return {}
    if ends is None:
        return {"value": value}
    return {"value": value, "low": ends[0], "high": ends[1]}


def to_markdown(comparison: Comparison, stories: bool = True) -> str:
    """The comparison as Markdown. stories: whether to quote those whose loss changed most."""
    runs = comparison.runs
    first = runs[0].name
    names = [run.name for run in runs]
    others = ", ".join(names[1:])
    if len(names) > SIDE_BY_SIDE:
        others = many(len(names) - 1, "run")
    return render.render(
        TEMPLATE,
        signed=signed,
        title=f"{others} compared with {first}",
        comparison=comparison,
        first=first,
        parameters=_grid(comparison.parameters.map(setting), "parameter", "params.yaml"),
        metrics=_grid(_metric_table(runs), "metric", "of each run alone (its own 95 % interval)"),
        findings=lambda against: _findings_table(first, against),
        stories=stories,
        nothing=NOTHING,
    )


def _grid(cells: pd.DataFrame, corner: str, caption: str) -> Markup:
    """A table with a column for each run; with many runs, a row for each."""
    if cells.empty:
        return Markup("")
    if len(cells.columns) > SIDE_BY_SIDE:
        cells = cells.T
        corner = "run"
    rows = cells.reset_index().to_numpy().tolist()
    return render.table([corner, *cells.columns], rows, caption)


def _metric_table(runs: list[RevisionResult]) -> pd.DataFrame:
    """The metrics that some run has: a row each, and a column for each run."""
    table = pd.DataFrame(index=[label for label, _ in METRICS.values()])
    for run in runs:
        cells = []
        for key, (_, form) in METRICS.items():
            value: Any = metric_of(run, key)
            if len(runs) > SIDE_BY_SIDE:
                value = value.get("value")
            cells.append(with_interval(value, form))
        table[run.name] = cells
    return table[(table != ABSENT).any(axis=1)]


def signed(value: float) -> str:
    """A difference with its sign: +0.12, −3.40."""
    text = number(value)
    return text if text.startswith(MINUS) or value == 0 else f"+{text}"


def _findings_table(first: str, against: Against) -> Markup:
    rows = []
    for finding in against.findings:
        difference = finding.difference
        ends = f"{signed(difference.low)} to {signed(difference.high)}"
        over = f"{difference.count:,} {OVER.get(finding.metric, 'stories')}"
        rows.append(
            [
                LABELS[finding.metric],
                f"{_four_digits(difference.first)} → {_four_digits(difference.second)}",
                f"{signed(difference.value)} ({ends})",
                over,
                finding.sentence,
            ]
        )
    heads = ["metric", f"{first} → {against.name}", "difference (95 % interval)", "over", "verdict"]
    return render.table(heads, rows, _findings_caption(first, against))


def _findings_caption(first: str, against: Against) -> str:
    caption = f"{against.name} compared with {first}; intervals over stories"
    errors = [finding.difference.seeds for finding in against.findings]
    if not any(errors):
        return f"{caption} alone"
    first_seeds = ", ".join(map(str, against.seeds[0]))
    seeds = ", ".join(map(str, against.seeds[1]))
    caption += f" and seeds ({seeds} compared with {first_seeds})"
    if any(error is not None and error.paired for error in errors):
        caption += "; seeds are compared one by one"
    return caption


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Everything that the page shows, unrounded."""
    runs = []
    for run in comparison.runs:
        metrics = {key: metric_of(run, key) for key in METRICS}
        row = {"name": run.name, "commit": run.commit, "metrics": metrics, "notes": run.notes}
        runs.append(row)
    against = {}
    for other in comparison.against:
        value = dataclasses.asdict(other)
        value["changed"] = other.changed.to_dict("records")
        value["findings"] = {finding.pop("metric"): finding for finding in value["findings"]}
        against[other.name] = value
    return {
        "runs": runs,
        "parameters": comparison.parameters.T.to_dict(),
        "no_effect": comparison.no_effect,
        "inputs": comparison.inputs,
        "resamples": RESAMPLES,
        "level": LEVEL,
        "comparisons": comparison.comparisons,
        "against_first": against,
    }
