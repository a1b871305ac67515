"""What a comparison says, as blocks: the terminal and the page set the same ones."""

from collections.abc import Mapping
from typing import Any

from tinylm.compare.comparison import BITS, BLEU, PERPLEXITY, Against, Comparison, Finding
from tinylm.compare.figures import FIGURES
from tinylm.compare.runs import Run
from tinylm.compare.sweep import Scaling
from tinylm.reporting.blocks import Blocks, Quotes, bullets, fold, heading, joined, paragraph, table
from tinylm.reporting.wording import ABSENT, MINUS, figure

LABELS = {PERPLEXITY: "perplexity", BITS: "bits per byte", BLEU: "BLEU of four words"}
SIDE_BY_SIDE = 4  # runs that are columns; of more, each is a row
SCALING = "Scaling"
NOTHING = "(it ends there)"
_CLAIMS = 5  # of so many findings one may be chance
Sections = list[tuple[str, Blocks]]


def sections(comparison: Comparison, scaling: Scaling | None = None, *, stories: bool = True) -> Sections:
    """(title, blocks) of each section that has something to say; `scaling`: of a sweep."""
    first = comparison.runs[0].name
    found = [
        ("Runs", _runs(comparison.runs)),
        ("Parameters that differ", _parameters(comparison)),
        ("Figures", _figures(comparison.runs)),
        (f"Against {first}", joined(_against(first, against) for against in comparison.against) + _chance(comparison)),
    ]
    if scaling is not None and scaling.law.laws:  # else the runs are not of different sizes, and nobody asked
        found.append((SCALING, _scaling(scaling)))
    if stories:
        found.append(("Stories that changed most", joined(_stories(first, against) for against in comparison.against)))
    return [(title, blocks) for title, blocks in found if blocks]


def _runs(runs: list[Run]) -> Blocks:
    lines = [
        f"{run.name}: {f'commit {run.commit[:7]}' if run.commit else 'the files as they stand here'}" for run in runs
    ]
    twins = [
        f"{run.name} and {other.name} are the same commit"
        for place, run in enumerate(runs)
        for other in runs[:place]
        if run.commit and run.commit == other.commit
    ]
    notes = [paragraph(f"{run.name}: {note}.", kind="missing") for run in runs for note in run.notes]
    return bullets(lines) + paragraph(*(f"{line}." for line in twins), kind="note") + joined(notes)


def _grid(caption: str, first: str, cells: Mapping[str, Mapping[str, str]], names: list[str]) -> Blocks:
    """A table of {row: {run: cell}}; with many runs each run is a row."""
    if len(names) <= SIDE_BY_SIDE:
        return table(
            caption, [first, *names], ([row, *(by_run[name] for name in names)] for row, by_run in cells.items())
        )
    rows = ([name, *(by_run[name] for by_run in cells.values())] for name in names)
    return table(caption, ["run", *cells], rows)


def _value(value: Any) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _parameters(comparison: Comparison) -> Blocks:
    names = [run.name for run in comparison.runs]
    cells = {key: {name: _value(value) for name, value in row.items()} for key, row in comparison.parameters.items()}
    none = "" if cells or comparison.inputs else "Nothing that decides a figure here differs."
    no_effect, inputs = ", ".join(comparison.no_effect), ", ".join(comparison.inputs)
    return (
        (_grid("params.yaml", "parameter", cells, names) if cells else [])
        + paragraph(none)
        + paragraph(f"Without effect on the figures here: {no_effect}." if no_effect else "", kind="note")
        + paragraph(f"Code or data that differ as well: {inputs}." if inputs else "", kind="missing")
    )


def _figures(runs: list[Run]) -> Blocks:
    cells = {row.label: {run.name: row.cell(run) for run in runs} for row in FIGURES}
    known = {label: row for label, row in cells.items() if any(cell != ABSENT for cell in row.values())}
    caption = "of each run alone, with its own 95 % interval where it has one"
    return _grid(caption, "figure", known, [run.name for run in runs])


def signed(value: float) -> str:
    """A difference with its sign: +0.12, −3.40."""
    text = figure(value)
    return text if text.startswith(MINUS) or value == 0 else f"+{text}"


def _row(finding: Finding) -> list[str]:
    found = finding.difference
    ends = f"{signed(found.value)} ({signed(found.low)} to {signed(found.high)})"
    over = f"{found.count:,} {'prompts' if finding.metric == BLEU else 'stories'}"
    values = f"{figure(found.first, 4)} → {figure(found.second, 4)}"
    return [LABELS[finding.metric], values, ends, over if found.paired else f"{over}, unpaired", finding.verdict.says]


def _against(first: str, against: Against) -> Blocks:
    heads = ["metric", f"{first} → {against.name}", "difference (95 % interval)", "over", "what may be said"]
    caption = f"{against.name} against {first}, each resample drawing the same stories for both"
    rows = [_row(finding) for finding in against.findings]
    notes = joined(paragraph(f"{against.name}: {note}.", kind="note") for note in against.notes)
    return table(caption, heads, rows, prose=("what may be said",), stacked=True) + notes


def _chance(comparison: Comparison) -> Blocks:
    findings = sum(len(against.findings) for against in comparison.against)
    if findings <= _CLAIMS:
        return []
    return paragraph(f"{findings} intervals of 95 %: of 20 such, one leaves 0 out by chance.", kind="note")


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
