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
from tinylm.report.findings import RULES, Finding
from tinylm.report.heads import HEAD_RULES, best_by_role, heads, inductive_head
from tinylm.report.settings import ReportSettings
from tinylm.report.sources import STAGES, Run, Tree, as_number, as_tree
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
        not_measured=lambda name: _not_measured(run, name),
    )


def template_values(run: Run) -> dict[str, Any]:
    """What the templates name of a run: params, each stage's results and times, and what follows from them."""
    times = {f"{stage}_time": run.tree(f"{stage}_time") for stage in STAGES}
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
        "training_samples": _training_samples(run),
        "greedy_texts": _greedy_texts(run),
        "longest_runs": _longest_runs(run),
        "sense_methods": pictures.sense_methods(run),
        "beam_sense": {name: row.sense for name, row in run.tree("beam_bench").methods.items()},
        "sense_errors": _sense_errors(run),
        "impossible": [row for row in run.rows("sense") if row.get("method") == "decode"][:_SHOWN],
        "phenomena": _phenomena(run),
        "pair_examples": _pair_examples(run),
        "heads": heads(run),
        "roles": list(best_by_role(run).values()),
        "inductive_head": inductive_head(run),
        "statistics": _head_statistics(run),
        "beam_texts": _beam_texts(run),
        "kv_settings": _with_baseline(run, "kv_bench_time", "cache", ("new_tokens", "rows")),
        "ckpt_settings": _with_baseline(run, "ckpt_bench_time", "recompute", ("layers",)),
        "stage_seconds": pictures.stage_seconds(run),
        "machines": _machines(run),
    }


def all_findings(run: Run) -> list[Finding]:
    """All that this run shows and does not show, in the order of the page."""
    first, last = RULES[:-1], RULES[-1:]
    rules = (*first, *HEAD_RULES, *COST_RULES, *last)
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


def _not_measured(run: Run, name: str) -> Markup:
    """Which settings a bench could not measure, and why."""
    lines = []
    for row in run.tree(name).not_measured or []:
        lines.append(f"Not measured: {row.setting}, {name_of(str(row.figure))}: {row.reason}.")
    return Markup("\n\n").join(Markup("*{}*").format(render.escape(line)) for line in lines)


def _training_samples(run: Run) -> dict[str, str]:
    """The first sample of each checkpoint by when it was written."""
    samples: dict[str, str] = {}
    for row in run.rows("stories"):
        epochs = row.get("epochs") or ""
        when = f"After {epochs} epochs" if epochs else "At the end"
        samples.setdefault(when, f"{row.get('prompt', '')} {row.get('text', '')}")
    return samples


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


def _longest_runs(run: Run) -> list[dict[str, Any]]:
    """The continuations that share the longest runs with train."""
    rows = [row for row in run.rows("memorised") if row.get("text") == "continuation"]
    rows.sort(key=lambda row: as_number(row.get("longest_run")) or 0.0, reverse=True)
    return rows[:_SHOWN]


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


def _phenomena(run: Run) -> dict[str, Tree]:
    """The phenomena whose pairs the model was measured on."""
    phenomena = run.tree("evaluate").pairs.phenomena.items()
    return {name: row for name, row in phenomena if row.model}


def _pair_examples(run: Run) -> list[tuple[str, str, str]]:
    """A pair of each phenomenon: (its name, right, wrong)."""
    measured = _phenomena(run)
    examples: dict[str, tuple[str, str, str]] = {}
    for row in run.rows("pairs"):
        name = row.get("phenomenon", "")
        if name in measured:
            examples.setdefault(name, (name, *_without_opening(row["right"], row["wrong"])))
    return list(examples.values())


def _without_opening(right: str, wrong: str) -> tuple[str, str]:
    """Two texts without the opening sentence that both share."""
    start = right.find(". ") + 2
    if start > 1 and right[:start] == wrong[:start]:
        return right[start:], wrong[start:]
    return right, wrong


def _head_statistics(run: Run) -> pd.DataFrame:
    """Attention statistics of every head, without those of even attention."""
    frame = pd.DataFrame(run.rows("heads"))
    measured = [column for column in frame if not str(column).endswith("_even")]
    return frame[measured].rename(columns=name_of).map(_three_digits)


def _three_digits(cell: Any) -> str:
    value = as_number(cell)
    return str(cell) if value is None else f"{value:.3g}"


def _beam_texts(run: Run) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """What each method wrote, by (prompt, how its story goes on)."""
    texts: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in run.rows("beams"):
        prompt = (str(row.get("prompt")), str(row.get("reference")))
        texts.setdefault(prompt, []).append(row)
    return texts


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
