"""report.md: the values that the templates name, and the document that they make of a run."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tinylm.report import render
from tinylm.report.cost_findings import COST_RULES
from tinylm.report.cost_rows import cost_values
from tinylm.report.drawing import Picture
from tinylm.report.findings import RULES, Finding
from tinylm.report.heads import HEAD_RULES, best_by_role, heads, inductive_head
from tinylm.report.pictures import baseline_rows, sense_methods
from tinylm.report.settings import ReportSettings
from tinylm.report.sources import STAGES, Run, as_number, as_tree
from tinylm.report.wording import (
    ABSENT,
    FORMATS,
    count,
    flag,
    interval,
    loss,
    mebibytes,
    name_of,
    number,
    setting,
    share,
    share_with_interval,
    with_interval,
)

TEMPLATE = Path(__file__).with_name("report.md.j2")
PICTURES = "../plots/pictures"  # seen from the folder of the report
_SEED_METRICS = {
    "perplexity": ("perplexity on evaluation", number),
    "nats_per_token": ("nats per token", loss),
    "bits_per_byte": ("bits per byte, normalised text", loss),
    "raw_bits_per_byte": ("bits per byte, raw text", loss),
    "held_out_loss": ("held-out loss", loss),
}
_SHOWN = 8  # examples in a table
Rows = list[tuple[Any, ...]]


def write_document(
    run: Run, settings: ReportSettings, pictures: Mapping[str, Picture], lab: bool = False
) -> str:
    """The whole report as Markdown.

    Args:
        run: what the stages left behind.
        settings: section `report`.
        pictures: what was drawn, by name; only their alt texts are read.
        lab: whether lab.html stands in the same folder, which the report then links to.
    """
    findings = all_findings(run)
    return render.render(
        TEMPLATE,
        FORMATS,
        **template_values(run),
        settings=settings,
        lab=lab,
        shown=[finding for finding in findings if finding.is_shown],
        not_shown=[finding for finding in findings if not finding.is_shown],
        picture=lambda name, caption: _picture(pictures, name, caption),
        missing=lambda *names: _missing(run, names),
        not_measured=lambda name: _not_measured(run, name),
    )


def template_values(run: Run) -> dict[str, Any]:
    """What the templates name of a run: params, each stage's results and times, and the rows of the tables."""
    trees = {stage: run.tree(stage) for stage in STAGES}
    times = {f"{stage}_time": run.tree(f"{stage}_time") for stage in STAGES}
    return {
        "run": run,
        "params": as_tree(run.params),
        "in_mib": lambda value: mebibytes((as_number(value) or 0.0) / 2**20 or None),
        "settings_rows": lambda section: [(key, setting(value)) for key, value in section.items()],
        **trees,
        **times,
        **_prediction_values(run),
        **_text_values(run),
        **_sense_values(run),
        **_pair_values(run),
        **_head_values(run),
        **cost_values(run),
    }


def all_findings(run: Run) -> list[Finding]:
    """All that this run shows and does not show, in the order of the page."""
    first, last = RULES[:-1], RULES[-1:]
    rules = (*first, *HEAD_RULES, *COST_RULES, *last)
    return [finding for rule in rules for finding in rule(run)]


def _picture(pictures: Mapping[str, Picture], name: str, caption: str) -> Markup:
    if name not in pictures:
        return Markup("")
    return render.image(f"{PICTURES}/{name}.png", pictures[name].alt, caption)


def _missing(run: Run, names: Iterable[str]) -> Markup:
    """One line for each file that was not there, with the command that makes it."""
    problems = [run.problems[name] for name in names if name in run.problems]
    return Markup("\n\n").join(
        Markup("**Not shown:** {}.").format(render.escape(problem)) for problem in problems
    )


def _not_measured(run: Run, name: str) -> Markup:
    """Which settings a bench could not measure, and why."""
    lines = []
    for row in run.records(name, "not_measured"):
        lines.append(f"Not measured: {row.setting}, {name_of(str(row.figure))}: {row.reason}.")
    return Markup("\n\n").join(Markup("*{}*").format(render.escape(line)) for line in lines)


def _prediction_values(run: Run) -> dict[str, Any]:
    span = interval(run.get("evaluate", "perplexity_interval"))
    seeds = run.tree("seeds")
    statistics = [
        (label, written(row.mean), number(row.sd, 4), number(row.difference, 4))
        for key, (label, written) in _SEED_METRICS.items()
        if (row := seeds[key])
    ]
    by_seed = [
        (f"seed {seed}", *(written(row.get(key)) for key, (_, written) in _SEED_METRICS.items()))
        for seed, row in run.table("seeds", "by_seed").items()
    ]
    baselines = baseline_rows(run)
    return {
        "baselines": baselines,
        "baseline_cells": [
            (name, number(row["perplexity"]), loss(row["nats_per_token"]))
            for name, row in baselines
        ],
        "perplexity_interval": f"{number(span[0])} to {number(span[1])}" if span else "",
        "seed_statistics": statistics,
        "seed_rows": by_seed,
    }


def _text_values(run: Run) -> dict[str, Any]:
    samples = run.tree("evaluate").samples
    values: dict[str, Any] = {"bleu_rows": [], "text_rows": []}
    if samples:
        values["bleu_rows"] = [
            *((f"up to {n} words", with_interval(samples[f"bleu{n}"])) for n in range(1, 5)),
            ("single texts, mean", with_interval(samples.sentence_bleu)),
        ]
        values["text_rows"] = [
            (
                "perplexity",
                with_interval(samples.continuation_perplexity),
                with_interval(samples.reference_perplexity),
            ),
            *(
                (label, written(samples[key]), written(samples[f"reference_{key}"]))
                for key, label, written in (
                    ("distinct1", "distinct words", number),
                    ("distinct2", "distinct 2-grams", number),
                    ("distinct3", "distinct 3-grams", number),
                    ("repeated_4grams", "repeated 4-grams", share),
                )
            ),
        ]
    values["sample_rows"] = [
        (
            *(row.get(key) for key in ("prompt", "reference", "continuation")),
            number(row.get("perplexity")),
            number(row.get("bleu")),
            flag(row.get("finished")),
        )
        for row in run.rows("samples")
    ]
    first: dict[str, str] = {}
    for row in run.rows("stories"):
        epochs = row.get("epochs") or ""
        when = f"After {epochs} epochs" if epochs else "At the end"
        first.setdefault(when, f"{row.get('prompt', '')} {row.get('text', '')}")
    values["training_samples"] = list(first.items())
    values["own_texts"] = run.rows("own_texts")
    values["greedy_texts"] = _greedy_texts(run)
    return values | _memorised_values(run)


def _greedy_texts(run: Run) -> list[tuple[str, list[tuple[str, float]]]]:
    """(prompt, its tokens with their probabilities) of each greedy continuation."""
    texts: list[tuple[str, list[tuple[str, float]]]] = []
    for row in run.rows("greedy"):
        probability = as_number(row.get("probability"))
        if probability is not None:
            if not texts or as_number(row.get("number")) == 1:
                texts.append((str(row.get("prompt", "")), []))
            texts[-1][1].append((str(row.get("token", "")), probability))
    return texts


def _memorised_values(run: Run) -> dict[str, Any]:
    memorised = run.tree("evaluate").memorised
    sides = memorised.continuations, memorised.references
    rows: Rows = []
    if any(sides):
        for label, key, written in (
            ("texts", "count", count),
            ("words", "words", count),
            ("longest run, mean", "longest_run", with_interval),
            ("longest run, median", "longest_run_median", number),
            ("longest run of all", "longest_run_largest", count),
            ("whole texts in train", "whole", count),
            ("nearest story holds", "overlap", share_with_interval),
        ):
            rows.append((label, *(written(side[key]) for side in sides)))
        for n in sides[0].new:
            rows.append((f"new {n}-grams", *(share_with_interval(side.new[n]) for side in sides)))
    own = [row for row in run.rows("memorised") if row.get("text") == "continuation"]
    own.sort(key=lambda row: -(as_number(row.get("longest_run")) or 0.0))
    closest = [
        (
            row.get("prompt"),
            count(row.get("words")),
            count(row.get("longest_run")),
            row.get("run"),
            share(row.get("overlap")),
            row.get("nearest"),
        )
        for row in own[:_SHOWN]
    ]
    return {"memorised_rows": rows, "closest_rows": closest}


def _sense_cells(name: str, row: Any) -> tuple[str, ...]:
    words = with_interval(row.words) if row.words else "no error"
    return name, count(row.texts), share_with_interval(row.possible), words


def _sense_values(run: Run) -> dict[str, Any]:
    methods = sense_methods(run)
    # The table of errors has a column for each method, so that only the main ones fit.
    main = {name: row for name, row in methods.items() if not name.startswith("temperature")}
    of_beams = run.table("beam_bench", "methods")
    meanings = run.mapping("evaluate", "sense", "kinds")
    errors = []
    for kind, meaning in meanings.items():
        numbers = [as_number(row.kinds.get(kind)) or 0 for row in main.values()]
        if any(numbers):
            errors.append((kind, meaning, *map(count, numbers)))
    impossible = [
        tuple(row.get(key) for key in ("word", "kind", "instead", "story"))
        for row in run.rows("sense")
        if row.get("method") == "decode"
    ]
    return {
        "sense_rows": [_sense_cells(name, row) for name, row in methods.items()],
        "beam_sense_rows": [
            _sense_cells(name, row.sense) for name, row in of_beams.items() if row.sense
        ],
        "sense_names": list(main),
        "error_rows": errors,
        "impossible_rows": impossible[:_SHOWN],
    }


def _pair_values(run: Run) -> dict[str, Any]:
    pairs = run.tree("evaluate").pairs
    measured = {name: row for name, row in pairs.phenomena.items() if row.model}
    others = ("untrained", "kneser_ney", "unigram")
    rows: Rows = [
        (
            name,
            row.about,
            count(row.pairs),
            share_with_interval(row.model),
            *(share((row[key] or {}).get("value")) for key in others),
        )
        for name, row in measured.items()
    ]
    if rows:
        rows.append(("mean", "", "", *(share(pairs.all[key]) for key in ("model", *others))))
    examples: dict[str, tuple[str, str, str]] = {}
    for row in run.rows("pairs"):
        name = row.get("phenomenon", "")
        if name in measured:
            examples.setdefault(name, (name, *_without_opening(row["right"], row["wrong"])))
    return {
        "pair_rows": rows,
        "pair_examples": list(examples.values()),
        "unmeasured_pairs": [name for name in pairs.phenomena if name not in measured],
    }


def _without_opening(right: str, wrong: str) -> tuple[str, str]:
    """Two texts without the opening sentence that both share."""
    start = right.find(". ") + 2
    if start > 1 and right[:start] == wrong[:start]:
        return right[start:], wrong[start:]
    return right, wrong


def _head_values(run: Run) -> dict[str, Any]:
    head_rows: Rows = []
    for head in heads(run):
        best = head.roles[0] if head.roles else None
        nearest = f"({best.name})" if best else ABSENT
        head_rows.append(
            (
                f"{head.layer}, {head.head}",
                ", ".join(head.claimed()) or nearest,
                number(best and best.score, 2),
                number(best and best.baseline, 2),
                loss(head.increase),
                f"{loss(head.low)} to {loss(head.high)}",
                head.verdict(),
            )
        )
    statistics = run.rows("heads")
    columns = [key for key in (statistics or [{}])[0] if not key.endswith("_even")]
    return {
        "head_rows": head_rows,
        "roles": list(best_by_role(run).values()),
        "inductive_head": inductive_head(run),
        "tendency_heads": [name_of(column) for column in columns],
        "tendency_rows": [[_cell(row[column]) for column in columns] for row in statistics],
    }


def _cell(value: Any) -> str:
    """A cell of a table of numbers and words, numbers with three digits."""
    as_whole = as_number(value)
    if as_whole is None:
        return str(value)
    return count(as_whole) if as_whole.is_integer() else number(as_whole)
