"""report.md: the values that the templates name, and the document that they make of a run."""

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from tinylm.report import pictures, render
from tinylm.report.cost_findings import COST_RULES, relative
from tinylm.report.drawing import Picture
from tinylm.report.findings import RULES, Finding, limits
from tinylm.report.heads import HEAD_RULES, best_by_role, heads
from tinylm.report.settings import ReportSettings
from tinylm.report.sources import STAGES, Run, Tree, as_number, as_tree, records
from tinylm.report.wording import FORMATS, mebibytes, name_of, setting

TEMPLATE = Path(__file__).with_name("report.md.j2")
PICTURES = "../plots/pictures"  # seen from the folder of the report
_SEED_METRICS = {
    "perplexity": "perplexity on evaluation",
    "nats_per_token": "nats per token",
    "bits_per_byte": "bits per byte, normalised text",
    "raw_bits_per_byte": "bits per byte, raw text",
    "held_out_loss": "held-out loss",
}
_SHOWN = 8  # examples in a table


def write_document(
    run: Run, settings: ReportSettings, drawn: Mapping[str, Picture], lab: bool = False
) -> str:
    """The whole report as Markdown.

    Args:
        run: what the stages left behind.
        settings: section `report`.
        drawn: the pictures by name; only their alt texts are read.
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
        picture=lambda name, caption: _picture(drawn, name, caption),
        missing=lambda *names: _missing(run, names),
    )


def template_values(run: Run) -> dict[str, Any]:
    """What the templates name of a run: params, each stage's results and times, and what follows from them."""
    times = {f"{stage}_time": run.tree(f"{stage}_time") for stage in STAGES}
    seconds = {stage: times[f"{stage}_time"].seconds for stage in STAGES}
    phenomena = run.tree("evaluate").pairs.phenomena.items()
    memorised = run.frame("memorised")
    if not memorised.empty:
        written = memorised[memorised["text"] == "continuation"]
        memorised = written.nlargest(_SHOWN, "longest_run")
    return {
        "run": run,
        "params": as_tree(run.params),
        "in_mib": lambda value: mebibytes((as_number(value) or 0.0) / 2**20 or None),
        "settings_rows": lambda section: [(key, setting(value)) for key, value in section.items()],
        "relative": relative,
        **{stage: run.tree(stage) for stage in STAGES},
        **times,
        "seed_metrics": _SEED_METRICS,
        "baselines": pictures.baselines(run),
        "own_texts": run.rows("own_texts"),
        "training_samples": _first_of_each(run, "stories", "epochs"),
        "greedy_texts": _groups(run, "greedy", "prompt"),
        "longest_runs": records(memorised),
        "sense_methods": pictures.sense_methods(run),
        "beam_sense": {name: row.sense for name, row in run.tree("beam_bench").methods.items()},
        "sense_errors": _sense_errors(run),
        "impossible": [row for row in run.rows("sense") if row["method"] == "decode"][:_SHOWN],
        "phenomena": {name: row for name, row in phenomena if row.model},
        "pair_examples": _first_of_each(run, "pairs", "phenomenon"),
        "heads": heads(run),
        "roles": list(best_by_role(run).values()),
        "beam_texts": _groups(run, "beams", "prompt"),
        "kv_settings": _with_baseline(run, "kv_bench_time", "cache", ("new_tokens", "rows")),
        "ckpt_settings": _with_baseline(run, "ckpt_bench_time", "recompute", ("layers",)),
        "stage_seconds": {stage: time for stage, time in seconds.items() if time},
        "machines": _machines(run),
    }


def all_findings(run: Run) -> list[Finding]:
    """All that this run shows and does not show, in the order of the page."""
    rules = (*RULES, *HEAD_RULES, *COST_RULES, limits)
    return [finding for rule in rules for finding in rule(run)]


def _picture(drawn: Mapping[str, Picture], name: str, caption: str) -> Markup:
    if name not in drawn:
        return Markup("")
    return render.image(f"{PICTURES}/{name}.png", drawn[name].alt, caption)


def _missing(run: Run, names: Iterable[str]) -> Markup:
    """One line for each file that was not there, with the command that makes it."""
    problems = [run.problems[name] for name in names if name in run.problems]
    lines = [Markup("**Not shown:** {}.").format(render.escape(problem)) for problem in problems]
    return Markup("\n\n").join(lines)


def _first_of_each(run: Run, table: str, key: str) -> list[dict[str, Any]]:
    """The first row of a table for each value of a column."""
    frame = run.frame(table)
    return records(frame.drop_duplicates(key)) if key in frame else []


def _groups(run: Run, table: str, key: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of a table by the value of a column."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in run.rows(table):
        groups.setdefault(row[key], []).append(row)
    return groups


def _sense_errors(run: Run) -> pd.DataFrame:
    """How many texts of each main method have their first error of a kind; without kinds that none has."""
    methods = {
        name: row.kinds
        for name, row in pictures.sense_methods(run).items()
        if not name.startswith("temperature")
    }
    errors = pd.DataFrame(methods).fillna(0)
    errors = errors[errors.any(axis="columns")].astype(int)
    meanings = run.tree("evaluate").sense.kinds
    errors.insert(0, "kind", errors.index)
    errors.insert(1, "meaning", errors.index.map(meanings))
    return errors


def _with_baseline(
    run: Run, bench: str, switch: str, keys: Sequence[str]
) -> list[tuple[Tree, Tree]]:
    """Every measured setting of a bench, and the one with the same `keys` whose switch is off."""
    setting_of = itemgetter(*keys)
    rows: list[Tree] = []
    for part in ("settings", "smaller", "other_ways"):
        rows += run.tree(bench)[part] or []
    rows.sort(key=setting_of)
    off = {setting_of(row): row for row in rows if row[switch] is False}
    return [(row, off.get(setting_of(row), row)) for row in rows]


def _machines(run: Run) -> dict[str, list[str]]:
    """The stages that were measured under each description of a machine."""
    machines: dict[str, list[str]] = {}
    for stage in STAGES:
        conditions = run.tree(f"{stage}_time").conditions
        if conditions:
            line = ", ".join(f"{name_of(key)} {value}" for key, value in conditions.items())
            machines.setdefault(line, []).append(stage)
    return machines
