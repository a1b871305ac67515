"""A comparison as JSON."""

from typing import Any

from tinylm.compare.comparison import Against, Comparison
from tinylm.compare.figures import FIGURES
from tinylm.compare.runs import Run
from tinylm.compare.scaling import as_json as law_as_json
from tinylm.compare.statistics import LEVEL, RESAMPLES
from tinylm.compare.sweep import Scaling


def as_json(comparison: Comparison, scaling: Scaling | None = None) -> dict[str, Any]:
    """Everything that the page shows, figures unrounded."""
    return {
        "first": comparison.runs[0].name,
        "runs": [_run(run) for run in comparison.runs],
        "parameters": comparison.parameters,
        "without_effect": comparison.no_effect,
        "code_or_data": comparison.inputs,
        "bootstrap": {"resamples": RESAMPLES, "level": LEVEL, "over": "stories, for BLEU prompts"},
        "against_first": {against.name: _against(against) for against in comparison.against},
        **({"scaling": {**law_as_json(scaling.law), "left_out": scaling.left_out}} if scaling else {}),
    }


def _run(run: Run) -> dict[str, Any]:
    found = {".".join([figure.stage, *figure.keys]): figure.of(run) for figure in FIGURES}
    figures = {
        name: {"value": value, **({"low": ends[0], "high": ends[1]} if ends else {})}
        for name, (value, ends) in found.items()
        if value is not None
    }
    return {"name": run.name, "commit": run.commit, "figures": figures, "notes": run.notes}


def _against(against: Against) -> dict[str, Any]:
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
            "verdict": finding.verdict.kind,
            "says": finding.verdict.says,
        }
    changed = [{**vars(story), "change": story.change} for story in against.changed]
    return {"differs": against.differs, "findings": findings, "notes": against.notes, "changed_most": changed}
