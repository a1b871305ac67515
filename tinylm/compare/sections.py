"""What a comparison says: as blocks, which the terminal and the page share, and as JSON."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from tinylm.compare.comparison import (
    BITS,
    BLEU,
    PAIRS,
    PERPLEXITY,
    RAW_BITS,
    Against,
    Comparison,
    Finding,
)
from tinylm.compare.runs import Run
from tinylm.compare.scaling import Scaling
from tinylm.compare.scaling import as_json as law_as_json
from tinylm.compare.statistics import LEVEL, RESAMPLES
from tinylm.report.blocks import Blocks, Quotes, bullets, fold, heading, joined, paragraph, table
from tinylm.report.sources import as_number
from tinylm.report.wording import (
    ABSENT,
    MINUS,
    count,
    figure,
    interval,
    loss,
    many,
    share,
    share_with_interval,
)


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure by its place in metrics/STAGE.json and its format; `ends`: the place of its interval if separate."""

    label: str
    stage: str
    keys: tuple[str, ...]
    written: Any
    ends: tuple[str, ...] = ()

    def of(self, run: Run) -> tuple[float | None, tuple[float, float] | None]:
        """(value, its own 95 % interval), None if the run lacks it."""
        found = run.value(self.stage, *self.keys)
        ends = interval(run.value(self.stage, *self.ends) if self.ends else found)
        return as_number(found.get("value") if isinstance(found, dict) else found), ends

    def cell(self, run: Run) -> str:
        """The value with its interval as text."""
        value, ends = self.of(run)
        text = self.written(value)
        return (
            text
            if ends is None or text == ABSENT
            else f"{text} ({' to '.join(map(self.written, ends))})"
        )


def four(value: Any) -> str:
    """Four significant digits."""
    return figure(value, 4)


FIGURES = (
    Figure("perplexity", "evaluate", ("perplexity",), four, ("perplexity_interval",)),
    Figure("bits per byte, raw text", "evaluate", ("raw_bits_per_byte",), four),
    Figure("bits per byte, normalised text", "evaluate", ("bits_per_byte",), four),
    Figure("BLEU of four words", "evaluate", ("samples", "bleu4"), figure),
    Figure("Kneser-Ney's perplexity", "evaluate", ("baselines", "kneser_ney", "perplexity"), four),
    Figure(
        "words for each impossible one", "evaluate", ("sense", "methods", "decode", "words"), figure
    ),
    Figure("minimal pairs, right", "evaluate", ("pairs", "all", "model"), share),
    Figure("held-out loss", "train", ("held_out_loss_best",), loss),
    Figure("train loss", "train", ("train_loss",), loss),
    Figure("parameters", "train", ("parameters",), count),
    Figure("tokens seen", "train", ("tokens",), count),
)


LABELS = {
    PERPLEXITY: "perplexity",
    RAW_BITS: "bits per byte, raw text",
    BITS: "bits per byte, normalised text",
    BLEU: "BLEU of four words",
    PAIRS: "minimal pairs, right",
}
OVER = {BLEU: "prompts", PAIRS: "pairs"}  # what the others are over: stories
SIDE_BY_SIDE = 4  # up to this many runs are columns; with more, each is a row
SCALING = "Scaling"
NOTHING = "(it ends there)"
Sections = list[tuple[str, Blocks]]


def sections(
    comparison: Comparison, scaling: Scaling | None = None, *, stories: bool = True
) -> Sections:
    """(title, blocks) of each section that has content; `scaling`: of a sweep."""
    first = comparison.runs[0].name
    found = [
        ("Runs", _runs(comparison.runs)),
        ("Parameters that differ", _parameters(comparison)),
        ("Figures", _figures(comparison.runs)),
        ("Minimal pairs", _pairs(comparison.runs)),
        (
            f"Against {first}",
            joined(_against(first, against) for against in comparison.against)
            + _chance(comparison),
        ),
    ]
    if (
        scaling is not None and scaling.law.laws
    ):  # otherwise the runs do not differ in size, and nobody asked
        found.append((SCALING, _scaling(scaling)))
    if stories:
        found.append(
            (
                "Stories that changed most",
                joined(_stories(first, against) for against in comparison.against),
            )
        )
    return [(title, blocks) for title, blocks in found if blocks]


def _runs(runs: list[Run]) -> Blocks:
    lines = [
        f"{run.name}: {f'commit {run.commit[:7]}' if run.commit else 'the files as they stand here'}"
        for run in runs
    ]
    twins = [
        f"{run.name} and {other.name} are the same commit"
        for place, run in enumerate(runs)
        for other in runs[:place]
        if run.commit and run.commit == other.commit
    ]
    notes = [
        paragraph(f"{run.name}: {note}.", kind="missing") for run in runs for note in run.notes
    ]
    return bullets(lines) + paragraph(*(f"{line}." for line in twins), kind="note") + joined(notes)


def _grid(
    caption: str, first: str, cells: Mapping[str, Mapping[str, str]], names: list[str]
) -> Blocks:
    """A table of {row: {run: cell}}; with many runs each run is a row."""
    if len(names) <= SIDE_BY_SIDE:
        return table(
            caption,
            [first, *names],
            ([row, *(by_run[name] for name in names)] for row, by_run in cells.items()),
        )
    rows = ([name, *(by_run[name] for by_run in cells.values())] for name in names)
    return table(caption, ["run", *cells], rows)


def _value(value: Any) -> str:
    return (
        "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    )


def _parameters(comparison: Comparison) -> Blocks:
    names = [run.name for run in comparison.runs]
    cells = {
        key: {name: _value(value) for name, value in row.items()}
        for key, row in comparison.parameters.items()
    }
    none = "" if cells or comparison.inputs else "Nothing that decides a figure here differs."
    no_effect, inputs = ", ".join(comparison.no_effect), ", ".join(comparison.inputs)
    return (
        (_grid("params.yaml", "parameter", cells, names) if cells else [])
        + paragraph(none)
        + paragraph(
            f"Without effect on the figures here: {no_effect}." if no_effect else "", kind="note"
        )
        + paragraph(
            f"Code or data that differ as well: {inputs}." if inputs else "", kind="missing"
        )
    )


def _figures(runs: list[Run]) -> Blocks:
    cells = {row.label: {run.name: row.cell(run) for run in runs} for row in FIGURES}
    known = {
        label: row for label, row in cells.items() if any(cell != ABSENT for cell in row.values())
    }
    caption = "of each run alone, with its own 95 % interval where it has one"
    return _grid(caption, "figure", known, [run.name for run in runs])


def _pairs(runs: list[Run]) -> Blocks:
    """Each run's share of right pairs by phenomenon, where a run has them."""
    shares = {run.name: run.value("evaluate", "pairs", "phenomena") or {} for run in runs}
    names = dict.fromkeys(
        name for row in shares.values() for name, found in row.items() if found.get("model")
    )
    cells = {
        name: {
            run: share_with_interval((row.get(name) or {}).get("model"))
            for run, row in shares.items()
        }
        for name in names
    }
    caption = "share of pairs whose right sentence is likelier (95 % interval)"
    return _grid(caption, "phenomenon", cells, list(shares)) if cells else []


def signed(value: float) -> str:
    """A difference with its sign: +0.12, −3.40."""
    text = figure(value)
    return text if text.startswith(MINUS) or value == 0 else f"+{text}"


def _row(finding: Finding) -> list[str]:
    found = finding.difference
    ends = f"{signed(found.value)} ({signed(found.low)} to {signed(found.high)})"
    over = f"{found.count:,} {OVER.get(finding.metric, 'stories')}"
    values = f"{figure(found.first, 4)} → {figure(found.second, 4)}"
    return [
        LABELS[finding.metric],
        values,
        ends,
        over if found.paired else f"{over}, unpaired",
        finding.verdict.says,
    ]


def _seeds(name: str, seeds: list[int]) -> str:
    return (
        f"{name} ({many(len(seeds), 'seed')}: {', '.join(map(str, seeds))})"
        if len(seeds) > 1
        else name
    )


def _against(first: str, against: Against) -> Blocks:
    heads = [
        "metric",
        f"{first} → {against.name}",
        "difference (95 % interval)",
        "over",
        "what may be said",
    ]
    one, other = (
        _seeds(name, seeds)
        for name, seeds in zip((first, against.name), against.seeds, strict=True)
    )
    by = [finding.difference.seeds for finding in against.findings if finding.difference.seeds]
    paired = ", and the same seeds" if any(seeds.paired for seeds in by) else ""
    known = "stories and seeds" if by else "stories alone"
    caption = f"{other} against {one}; intervals over {known}, each resample drawing the same stories for both{paired}"
    rows = [_row(finding) for finding in against.findings]
    notes = joined(paragraph(f"{against.name}: {note}.", kind="note") for note in against.notes)
    return table(caption, heads, rows, prose=("what may be said",), stacked=True) + notes


def _chance(comparison: Comparison) -> Blocks:
    if comparison.comparisons < 2:
        return []
    note = (
        f"{comparison.comparisons} comparisons (perplexity and bits per byte of two settings are one): p is Holm's, so "
        "that in 95 of 100 sweeps nothing is claimed that is not so. The intervals are not corrected."
    )
    return paragraph(note, kind="note")


def _scaling(scaling: Scaling) -> Blocks:
    from tinylm.compare.scaling_section import scaling_blocks

    left_out = ", ".join(scaling.left_out)
    note = f"Left out, for their losses are not of the same text: {left_out}." if left_out else ""
    return scaling_blocks(scaling.law) + paragraph(note, kind="note")


def _stories(first: str, against: Against) -> Blocks:
    blocks: Blocks = []
    for changed in against.changed:
        line = (
            f"story {changed.story + 1}: {figure(changed.first)} → {figure(changed.second)} {changed.unit} "
            f"({signed(changed.change)})"
        )
        quotes = [
            ("the story goes on", changed.reference),
            (first, changed.first_continuation or NOTHING),
            (against.name, changed.second_continuation or NOTHING),
        ]
        blocks += [*heading(line), *paragraph(f"{changed.prompt} …"), Quotes(quotes)]
    return fold(f"{against.name} against {first}", blocks, is_open=True) if blocks else []


def as_json(comparison: Comparison, scaling: Scaling | None = None) -> dict[str, Any]:
    """Everything that the page shows, figures unrounded."""
    return {
        "first": comparison.runs[0].name,
        "runs": [_run_as_json(run) for run in comparison.runs],
        "parameters": comparison.parameters,
        "without_effect": comparison.no_effect,
        "code_or_data": comparison.inputs,
        "bootstrap": {
            "resamples": RESAMPLES,
            "level": LEVEL,
            "over": "stories; BLEU: prompts; minimal pairs: pairs",
        },
        "comparisons": comparison.comparisons,
        "against_first": {
            against.name: _against_as_json(against) for against in comparison.against
        },
        **(
            {"scaling": {**law_as_json(scaling.law), "left_out": scaling.left_out}}
            if scaling
            else {}
        ),
    }


def _run_as_json(run: Run) -> dict[str, Any]:
    found = {".".join([figure.stage, *figure.keys]): figure.of(run) for figure in FIGURES}
    figures = {
        name: {"value": value, **({"low": ends[0], "high": ends[1]} if ends else {})}
        for name, (value, ends) in found.items()
        if value is not None
    }
    return {"name": run.name, "commit": run.commit, "figures": figures, "notes": run.notes}


def _against_as_json(against: Against) -> dict[str, Any]:
    findings = {}
    for finding in against.findings:
        found = finding.difference
        findings[finding.metric] = {
            "first": found.first,
            "second": found.second,
            "difference": found.value,
            "low": found.low,
            "high": found.high,
            "count": found.count,
            "paired": found.paired,
            "seeds_give": vars(finding.noise) if finding.noise else None,
            "paired_by_seed": found.seeds is not None and found.seeds.paired,
            "p": finding.p,
            "verdict": finding.verdict.kind,
            "says": finding.verdict.says,
        }
    changed = [{**vars(story), "change": story.change} for story in against.changed]
    seeds = dict(zip(("first", "second"), against.seeds, strict=True))
    return {
        "differs": against.differs,
        "seeds": seeds,
        "findings": findings,
        "notes": against.notes,
        "changed_most": changed,
    }
