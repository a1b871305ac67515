"""Sections on what things cost: the cost benches, the time of the pipeline, the settings."""

from collections.abc import Mapping, Sequence
from typing import Any

from tinylm.reporting.findings import findings
from tinylm.reporting.markup import bullets, facts, gallery, heading, paragraph, picture, record_table, table
from tinylm.reporting.pictures import stage_seconds
from tinylm.reporting.run_sections import Svgs
from tinylm.reporting.sources import STAGES, Run
from tinylm.reporting.wording import count, figure, flag, kind_of, mebibytes, name_of, seconds, visible


def _not_measured(run: Run, name: str) -> str:
    rows = [
        f"{row.get('setting')}, {name_of(str(row.get('figure')))}: {row.get('reason')}"
        for row in run.records(name, "not_measured")
    ]
    return paragraph("Not measured:") + bullets(rows) if rows else ""


def _how(run: Run, name: str) -> str:
    measured = run.get(name, "measured")
    return paragraph(f"How it was measured: {visible(measured)}.", kind="note") if isinstance(measured, str) else ""


def cache(run: Run, svgs: Svgs) -> str:
    """kv_bench: speed with and without the cache."""
    heads = ["cache", "tokens/s", "first token", "each further token", "peak memory", "process", "past the context"]
    rows = [
        [
            count(row.get("new_tokens")),
            flag(row.get("cache")),
            figure(row.get("tokens_per_s")),
            seconds(row.get("first_token_s")),
            seconds(row.get("rest_s_per_token")),
            mebibytes(row.get("peak_mib")),
            mebibytes(row.get("process_mib")),
            flag(row.get("past_context")),
        ]
        for row in run.records("kv_bench_time", "settings")
    ]
    return (
        gallery(
            picture(
                svgs.get("kv_speed"),
                "Keys and values of earlier tokens are kept, so that a new token costs one "
                "position instead of the whole window. Past the dashed line the window slides and is filled anew.",
            ),
            picture(svgs.get("kv_memory"), "Highest memory of the allocator above the weights."),
        )
        + table("Decoding with and without the cache", ["new tokens", *heads], rows)
        + facts(
            [
                ("rows in the batch", count(run.get("kv_bench", "batch"))),
                ("same tokens both ways", flag(run.get("kv_bench", "same_ids"))),
            ]
        )
        + _not_measured(run, "kv_bench_time")
        + _how(run, "kv_bench_time")
    )


def _by_setting(caption: str, first: str, rows: Mapping[str, Mapping[str, Any]]) -> str:
    keys = list(dict.fromkeys(key for row in rows.values() for key in row))
    cells = {name: [kind_of(key)(row.get(key)) for key in keys] for name, row in rows.items()}
    return record_table(caption, first, cells, [_head(key) for key in keys])


def _head(key: str) -> str:
    known = {
        "tokens_per_s": "tokens/s",
        "epoch_s": "epoch (extrapolated)",
        "peak_mib": "peak memory",
        "step_s": "step",
        "process_mib": "process memory",
        "update_s": "update",
    }
    return known.get(key, name_of(key))


def accumulation(run: Run, svgs: Svgs) -> str:
    """accum_sweep: one graph for each way to compare."""
    learnt, cost = run.table("accum_sweep", "settings"), run.table("accum_sweep_time", "settings")
    answers, rate = run.get("accum_sweep", "answers"), run.get("accum_sweep", "learning_rate")
    merged = {name: {**learnt.get(name, {}), **cost.get(name, {})} for name in learnt | cost}
    return (
        gallery(
            *(
                picture(svgs.get(f"accum_{name}"), caption)
                for name, caption in (
                    ("tokens", "After the same text: accumulation trades updates for steadier gradients."),
                    ("updates", "After the same number of updates: more accumulation has read more text."),
                    ("micro_steps", "After the same number of mini-batches: nearly the same work for all."),
                )
            )
        )
        + _by_setting("Accumulation settings", "mini-batches an update", merged)
        + bullets(map(str, answers) if isinstance(answers, list) else ())
        + (paragraph(f"Learning rate: {rate}.") if isinstance(rate, str) else "")
        + _not_measured(run, "accum_sweep_time")
        + _how(run, "accum_sweep_time")
    )


def recomputation(run: Run, svgs: Svgs) -> str:
    """ckpt_bench: memory against time."""
    rows = [
        [
            count(row.get("layers")),
            {True: "recompute", False: "plain"}.get(row.get("recompute"), ""),  # type: ignore[arg-type]
            mebibytes(row.get("peak_mib")),
            seconds(row.get("step_s")),
            seconds(row.get("epoch_s")),
        ]
        for row in run.records("ckpt_bench_time", "settings")
    ]
    heads = ["layers", "activations", "peak memory", "a step", "an epoch (extrapolated)"]
    return (
        gallery(
            picture(
                svgs.get("ckpt_memory"),
                "“plain” stores what every block computed until the backward pass; "
                "“recompute” stores each block's input only.",
            ),
            picture(svgs.get("ckpt_time"), "The price: each block's forward pass runs twice."),
        )
        + table("Memory and time", heads, rows)
        + facts(
            [
                ("same loss", flag(run.get("ckpt_bench", "same_loss"))),
                ("same gradients", flag(run.get("ckpt_bench", "same_gradients"))),
            ]
        )
        + _not_measured(run, "ckpt_bench_time")
        + _how(run, "ckpt_bench_time")
    )


def budget(run: Run, svgs: Svgs) -> str:
    """Where the time went, and on which machine."""
    spent = stage_seconds(run)
    machines: dict[str, list[str]] = {}
    for stage in STAGES:
        machine = run.get(f"{stage}_time", "conditions")
        if isinstance(machine, dict):
            line = ", ".join(f"{name_of(str(key))} {visible(value)}" for key, value in machine.items())
            machines.setdefault(line, []).append(stage)
    rows = [[stage, seconds(value)] for stage, value in spent]
    measured = [[", ".join(stages), line] for line, stages in machines.items()]
    return gallery(
        picture(
            svgs.get("seconds"),
            "Wall time of each stage on this machine; a cached stage costs nothing. The accumulation "
            "runs have their own section.",
        ),
        table("Time of each stage", ["stage", "time"], rows),
    ) + table("Measured on", ["stages", "machine"], measured, prose=["stages", "machine"])


def conclusions(run: Run, svgs: Svgs) -> str:
    """The sentences that the rules of `findings` allow for these numbers."""
    found = findings(run)
    parts: Sequence[tuple[str, bool]] = (("They say", True), ("They do not say", False))
    return "".join(
        heading(title) + bullets(finding.text for finding in found if finding.claim == claim)
        for title, claim in parts
        if any(finding.claim == claim for finding in found)
    )


def settings(run: Run, svgs: Svgs) -> str:
    """All of params.yaml, a table a section."""
    tables = []
    for section, values in run.params.items():
        if isinstance(values, dict):
            rows = [[str(key), _value(value)] for key, value in values.items()]
            tables.append(table(str(section), ["key", "value"], rows, prose=["value"]))
    note = paragraph(
        "params.yaml as it stood when this page was written. The section runtime changes no result; under "
        "which conditions times were taken stands above."
    )
    return note + f'<div class="settings">{"".join(tables)}</div>' if tables else ""


def _value(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
