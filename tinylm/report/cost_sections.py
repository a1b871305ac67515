"""Sections on what things cost: key-value cache, gradient accumulation, gradient checkpointing."""

from collections.abc import Mapping
from typing import Any

from tinylm.report.blocks import (
    Blocks,
    bullets,
    facts,
    gallery,
    paragraph,
    picture,
    table,
)
from tinylm.report.cost_findings import times_of
from tinylm.report.sources import Run
from tinylm.report.wording import (
    ABSENT,
    count,
    flag,
    kind_of,
    mebibytes,
    name_of,
    visible,
)


def _not_measured(run: Run, name: str) -> Blocks:
    rows = [
        f"{row.get('setting')}, {name_of(str(row.get('figure')))}: {row.get('reason')}"
        for row in run.records(name, "not_measured")
    ]
    return paragraph("Not measured:") + bullets(rows) if rows else []


def how_measured(run: Run, name: str) -> Blocks:
    measured = run.get(name, "measured")
    return (
        paragraph(f"How it was measured: {visible(measured)}.", kind="note")
        if isinstance(measured, str)
        else []
    )


def cache(run: Run) -> Blocks:
    """kv_bench: speed with and without the cache, by length and batch size; and the samples of stage evaluate."""
    heads = [
        "rows",
        "cache",
        "tokens/s",
        "beside no cache",
        "first token",
        "each further token",
        "peak memory",
    ]
    measured = [row for key in ("settings", "smaller") for row in run.records("kv_bench_time", key)]
    without = {_place(row): row for row in measured if not row.get("cache")}
    rows = [
        [
            count(row.get("new_tokens")),
            count(row.get("rows", run.get("kv_bench", "batch"))),
            flag(row.get("cache")),
            with_trials(row, "tokens_per_s"),
            times_of(row, without.get(_place(row), row), "tokens_per_s"),
            with_trials(row, "first_token_s"),
            with_trials(row, "rest_s_per_token"),
            mebibytes(row.get("peak_mib")),
            mebibytes(row.get("process_mib")),
        ]
        for row in measured
    ]
    return (
        gallery(
            picture(
                "kv_speed",
                "Keys and values of earlier tokens are kept, so that a new token costs one "
                "position instead of the whole window. Past the dashed line the window slides and is filled anew.",
            ),
            picture("kv_memory", "Peak memory of the allocator, without the weights."),
        )
        + table(
            "Decoding with and without the cache (lowest to highest trial)",
            ["new tokens", *heads, "process"],
            rows,
        )
        + facts([("same tokens both ways", flag(run.get("kv_bench", "same_ids")))])
        + _not_measured(run, "kv_bench_time")
        + how_measured(run, "kv_bench_time")
    )


def _place(row: Mapping[str, Any]) -> tuple[Any, Any]:
    return row.get("new_tokens"), row.get("rows")


def with_trials(row: Mapping[str, Any], key: str) -> str:
    """A figure of a bench with the lowest and highest of its trials, where there were several."""
    text, *ends = (kind_of(key)(row.get(f"{end}{key}")) for end in ("", "low_", "high_"))
    return text if ABSENT in ends or ends[0] == ends[1] else f"{text} ({' to '.join(ends)})"


def _by_setting(caption: str, first: str, settings: Mapping[str, dict[str, Any]]) -> Blocks:
    """One row per figure that any setting has, with its trials if there were several, one column per setting."""
    keys = dict.fromkeys(
        key for row in settings.values() for key in row if not key.startswith(("low_", "high_"))
    )
    rows = [[_head(key), *(with_trials(row, key) for row in settings.values())] for key in keys]
    least = (
        settings[min(settings, key=int)]
        if settings and all(name.isdigit() for name in settings)
        else {}
    )
    rows.append(
        [
            "tokens/s beside the first",
            *(times_of(row, least, "tokens_per_s") for row in settings.values()),
        ]
    )
    return table(caption, [first, *settings], [row for row in rows if set(row[1:]) != {ABSENT}])


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


def accumulation(run: Run) -> Blocks:
    """accum_sweep: one graph for each way to compare."""
    learnt, cost = run.table("accum_sweep", "settings"), run.table("accum_sweep_time", "settings")
    answers, rate = run.get("accum_sweep", "answers"), run.get("accum_sweep", "learning_rate")
    merged = {name: {**learnt.get(name, {}), **cost.get(name, {})} for name in learnt | cost}
    return (
        gallery(
            *(
                picture(f"accum_{name}", caption)
                for name, caption in (
                    (
                        "tokens",
                        "After the same text: accumulation trades updates for steadier gradients.",
                    ),
                    (
                        "updates",
                        "After the same number of updates: more accumulation has read more text.",
                    ),
                    (
                        "micro_steps",
                        "After the same number of mini-batches: nearly the same work for all.",
                    ),
                )
            )
        )
        + _by_setting(
            "Accumulation settings (lowest to highest trial)", "mini-batches per update", merged
        )
        + bullets(map(str, answers) if isinstance(answers, list) else ())
        + (paragraph(f"Learning rate: {rate}.") if isinstance(rate, str) else [])
        + _not_measured(run, "accum_sweep_time")
        + how_measured(run, "accum_sweep_time")
    )


def recomputation(run: Run) -> Blocks:
    """ckpt_bench: memory against time; for each depth first the two modes that the pictures show, then the others."""
    measured = [
        row for key in ("settings", "other_ways") for row in run.records("ckpt_bench_time", key)
    ]
    plain = {row.get("layers"): row for row in measured if row.get("recompute") is False}
    rows = [
        [
            count(row.get("layers")),
            {True: "recompute", False: "plain"}.get(way, way if isinstance(way, str) else ""),  # type: ignore[arg-type]
            mebibytes(row.get("peak_mib")),
            with_trials(row, "step_s"),
            times_of(row, plain.get(row.get("layers"), row), "step_s"),
            with_trials(row, "epoch_s"),
        ]
        for row in sorted(measured, key=lambda row: str(row.get("layers")).zfill(4))
        for way in [row.get("recompute")]
    ]
    heads = [
        "layers",
        "activations",
        "peak memory",
        "a step",
        "beside plain",
        "an epoch (extrapolated)",
    ]
    return (
        gallery(
            picture(
                "ckpt_memory",
                "“plain” stores what every block computed until the backward pass; "
                "“recompute” stores each block's input only, but for the last block, where the backward pass begins; "
                "of the other ways, “blocks+loss” does so for that one too and computes the logits of a chunk again, "
                "“sqrt” stores the inputs of groups of blocks.",
            ),
            picture(
                "ckpt_time", "The price: the forward pass of each block but the last runs twice."
            ),
        )
        + table("Memory and time (lowest to highest trial)", heads, rows)
        + facts(
            [
                ("same loss", flag(run.get("ckpt_bench", "same_loss"))),
                ("same gradients", flag(run.get("ckpt_bench", "same_gradients"))),
            ]
        )
        + _not_measured(run, "ckpt_bench_time")
        + how_measured(run, "ckpt_bench_time")
    )
