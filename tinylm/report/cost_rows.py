"""Rows of the report's tables on decoding methods, benches and times."""

from typing import Any

from tinylm.report.cost_findings import relative
from tinylm.report.pictures import stage_seconds
from tinylm.report.sources import STAGES, Run, Tree, as_number
from tinylm.report.wording import (
    count,
    flag,
    loss,
    mebibytes,
    name_of,
    number,
    seconds,
    share,
    with_trials,
)

Rows = list[tuple[Any, ...]]


def cost_values(run: Run) -> dict[str, Any]:
    """What the templates name of the benches and of the times."""
    return {
        **_beam_values(run),
        "kv_rows": _kv_rows(run),
        "ckpt_rows": _ckpt_rows(run),
        **_accumulation_values(run),
        **_time_values(run),
    }


def _beam_values(run: Run) -> dict[str, Any]:
    methods = run.table("beam_bench", "methods")
    speeds = run.table("beam_bench_time", "methods")
    greedy = speeds.get("greedy", Tree())
    rows = []
    for name, row in methods.items():
        speed = speeds.get(name, Tree())
        rows.append(
            (
                name,
                number(row.bleu4),
                loss(row.log_prob_per_token),
                number(row.distinct2),
                share(row.repeated_4grams),
                with_trials(speed, "tokens_per_s"),
                relative(speed, greedy, "tokens_per_s"),
                with_trials(speed, "s_per_prompt"),
            )
        )
    texts: dict[tuple[str, str], Rows] = {}
    for output in run.rows("beams"):
        prompt = output.get("prompt", ""), output.get("reference", "")
        scores = number(output.get("log_prob")), number(output.get("score"))
        texts.setdefault(prompt, []).append((output.get("method"), output.get("text"), *scores))
    beam_texts = [(*prompt, rows) for prompt, rows in texts.items()]
    return {"beam_rows": rows, "beam_texts": beam_texts}


def _kv_rows(run: Run) -> Rows:
    measured = [row for key in ("settings", "smaller") for row in run.records("kv_bench_time", key)]
    without = {(row.new_tokens, row.get("rows")): row for row in measured if not row.cache}
    return [
        (
            count(row.new_tokens),
            count(row.get("rows", run.get("kv_bench", "batch"))),
            flag(row.cache),
            with_trials(row, "tokens_per_s"),
            relative(row, without.get((row.new_tokens, row.get("rows")), row), "tokens_per_s"),
            with_trials(row, "first_token_s"),
            with_trials(row, "rest_s_per_token"),
            mebibytes(row.peak_mib),
            mebibytes(row.process_mib),
        )
        for row in measured
    ]


def _ckpt_rows(run: Run) -> Rows:
    measured = [
        row for key in ("settings", "other_ways") for row in run.records("ckpt_bench_time", key)
    ]
    plain = {row.layers: row for row in measured if row.recompute is False}
    names = {"True": "recompute", "False": "plain"}
    return [
        (
            count(row.layers),
            names.get(str(row.recompute), str(row.recompute)),
            mebibytes(row.peak_mib),
            with_trials(row, "step_s"),
            relative(row, plain.get(row.layers, row), "step_s"),
            with_trials(row, "epoch_s"),
        )
        for row in sorted(measured, key=lambda row: as_number(row.layers) or 0.0)
    ]


def _accumulation_values(run: Run) -> dict[str, Any]:
    """One row for each metric, one column for each setting."""
    learnt = run.table("accum_sweep", "settings")
    times = run.table("accum_sweep_time", "settings")
    settings = {name: Tree({**learnt.get(name, {}), **times.get(name, {})}) for name in learnt}
    labels = {
        "held_out_loss_at_equal_tokens": ("held-out loss at equal tokens", loss),
        "held_out_loss_at_equal_updates": ("held-out loss at equal updates", loss),
    }
    rows: Rows = []
    for key, (label, written) in labels.items():
        rows.append((label, *(written(row[key]) for row in settings.values())))
    for key, label in (
        ("tokens_per_s", "tokens/s"),
        ("update_s", "an update"),
        ("epoch_s", "an epoch (extrapolated)"),
        ("peak_mib", "peak memory"),
    ):
        rows.append((label, *(with_trials(row, key) for row in settings.values())))
    first = next(iter(settings.values()), Tree())
    speeds = [relative(row, first, "tokens_per_s") for row in settings.values()]
    rows.append(("speed relative to the first", *speeds))
    return {"accumulations": list(settings), "accumulation_rows": rows if settings else []}


def _time_values(run: Run) -> dict[str, Any]:
    spent = stage_seconds(run)
    machines: dict[str, list[str]] = {}
    for stage in STAGES:
        conditions = run.mapping(f"{stage}_time", "conditions")
        if conditions:
            line = ", ".join(f"{name_of(key)} {value}" for key, value in conditions.items())
            machines.setdefault(line, []).append(stage)
    return {
        "total_seconds": sum(value for _, value in spent) or None,
        "time_rows": [
            (stage, seconds(value), mebibytes(run.get(f"{stage}_time", "peak_mib")))
            for stage, value in spent
        ],
        "machine_rows": [(", ".join(stages), line) for line, stages in machines.items()],
    }
