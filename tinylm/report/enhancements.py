"""One table of what each enhancement does to speed, memory and text."""

from typing import Any

from tinylm.report.blocks import Blocks, paragraph, record_table
from tinylm.report.cost_findings import times_of
from tinylm.report.sense_sections import beam_senses
from tinylm.report.sources import Run, as_number
from tinylm.report.wording import (
    ABSENT,
    count,
    figure,
    flag,
    loss,
    many,
    mebibytes,
    name_of,
    visible,
    with_interval,
)


def enhancements(run: Run) -> Blocks:
    """Cache, beams, accumulation, checkpointing and precision side by side; what was not measured has no row."""
    made = (_cache(run), _beams(run), _accumulation(run), _checkpointing(run), _precision(run))
    rows = {name: cells for found in made for name, cells in found.items()}
    if not rows:
        return []
    note = (
        "Each at the largest setting that this run measured, beside the run without it. Times whose interleaved trials "
        f"overlap, or that were measured once, are not compared. “{ABSENT}”: not measured."
    )
    heads = ["compared with", "speed", "peak memory", "text or loss"]
    return paragraph(note) + record_table(
        "What each enhancement does", "enhancement", rows, heads, prose=True
    )


def _memory(one: dict[str, Any], other: dict[str, Any]) -> str:
    own, base = one.get("peak_mib"), other.get("peak_mib")
    return ABSENT if own is None or base is None else f"{mebibytes(own)} against {mebibytes(base)}"


def _at_most(
    rows: list[dict[str, Any]], key: str, switch: str
) -> tuple[float, dict[str, Any], dict[str, Any]] | None:
    """The greatest value of `key` that was measured with and without `switch`: (value, with, without)."""
    found: dict[float, dict[bool, dict[str, Any]]] = {}
    for row in rows:
        if (place := as_number(row.get(key))) is not None:
            found.setdefault(place, {})[bool(row.get(switch))] = row
    both = [place for place, pair in found.items() if len(pair) == 2]
    return (max(both), found[max(both)][True], found[max(both)][False]) if both else None


def _cache(run: Run) -> dict[str, list[str]]:
    found = _at_most(run.records("kv_bench_time", "settings"), "new_tokens", "cache")
    if not found:
        return {}
    length, own, without = found
    text = f"the same tokens: {flag(run.get('kv_bench', 'same_ids'))}"
    speed = times_of(own, without, "tokens_per_s", " the tokens/s")
    return {
        "key-value cache": [f"none, {count(length)} new tokens", speed, _memory(own, without), text]
    }


def _beams(run: Run) -> dict[str, list[str]]:
    methods, speeds = run.table("beam_bench", "methods"), run.table("beam_bench_time", "methods")
    widths = {
        int(name.removeprefix("beam ")): name
        for name in methods
        if name.removeprefix("beam ").isdigit()
    }
    if not widths or "greedy" not in methods:
        return {}
    name = widths[max(widths)]
    own, greedy = methods[name], methods["greedy"]
    rows = speeds.get(name, {}), speeds.get("greedy", {})
    speed = times_of(*rows, "tokens_per_s", " the tokens/s")
    difference = with_interval(own.get("against_greedy", {}).get("difference"), 2)
    text = (
        f"log-probability {difference} nats a text above greedy; BLEU-4 {figure(own.get('bleu4'))} against "
        f"{figure(greedy.get('bleu4'))}"
    )
    senses = beam_senses(run)
    if name in senses and "greedy" in senses:
        words = [with_interval(senses[way].get("words")) for way in (name, "greedy")]
        text += f"; words for each impossible one {words[0]} against {words[1]}"
    return {f"beam search, width {max(widths)}": ["greedy decoding", speed, ABSENT, text]}


def _accumulation(run: Run) -> dict[str, list[str]]:
    settings, times = (
        run.table("accum_sweep", "settings"),
        run.table("accum_sweep_time", "settings"),
    )
    steps = sorted(int(name) for name in settings if name.isdigit())
    if len(steps) < 2:
        return {}
    least, most = (str(steps[place]) for place in (0, -1))
    rows = times.get(most, {}), times.get(least, {})
    speed = times_of(*rows, "tokens_per_s", " the tokens/s")
    losses = [
        f"{loss(settings[most].get(key))} against {loss(settings[least].get(key))} after equally many {what}"
        for key, what in (
            ("held_out_loss_at_equal_tokens", "tokens"),
            ("held_out_loss_at_equal_updates", "updates"),
        )
    ]
    compared = f"{least}, mini-batches of {many(run.get('accum_sweep', 'batch_size'), 'row')}"
    return {f"accumulation {most}": [compared, speed, _memory(*rows), f"loss {'; '.join(losses)}"]}


def _checkpointing(run: Run) -> dict[str, list[str]]:
    found = _at_most(run.records("ckpt_bench_time", "settings"), "layers", "recompute")
    if not found:
        return {}
    layers, own, without = found
    speed = times_of(own, without, "step_s", " the time of a step")
    same = f"the same gradients: {flag(run.get('ckpt_bench', 'same_gradients'))}"
    compared = f"storing all, {many(layers, 'layer')}"
    return {"gradient checkpointing": [compared, speed, _memory(own, without), same]}


def _precision(run: Run) -> dict[str, list[str]]:
    """One run has one precision of training; decoding in another than fp32 is compared with fp32."""
    trained = run.get("train", "precision")
    if not isinstance(trained, str):
        return {}
    changed = [
        row["against_fp32"]
        for row in run.table("beam_bench", "methods").values()
        if "against_fp32" in row
    ]
    shown = (
        ", ".join(f"{name_of(key)} {figure(value)}" for key, value in changed[0].items())
        if changed
        else ""
    )
    text = (
        f"decoding against fp32: {shown}"
        if changed
        else "one precision in this run: nothing to compare"
    )
    return {f"precision {visible(trained)}": [ABSENT, ABSENT, ABSENT, text]}
