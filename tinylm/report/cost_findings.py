"""Rules about what things cost: caches, accumulation, recomputation, timings."""

from typing import Any

from tinylm.report.sources import STAGES, Run, as_number
from tinylm.report.wording import (
    ABSENT,
    Finding,
    big,
    count,
    figure,
    flag,
    loss,
    many,
    mebibytes,
    not_said,
    said,
)


def judge_cache(run: Run) -> list[Finding]:
    """How much faster the key-value cache makes decoding, at the shortest and the longest text."""
    pairs: dict[float, dict[bool, dict[str, Any]]] = {}
    for row in run.records("kv_bench_time", "settings"):
        tokens = as_number(row.get("new_tokens"))
        if tokens is not None and as_number(row.get("tokens_per_s")):
            pairs.setdefault(tokens, {})[bool(row.get("cache"))] = row
    pairs = {tokens: pair for tokens, pair in sorted(pairs.items()) if len(pair) == 2}
    if not pairs:
        return []
    found = []
    for tokens in dict.fromkeys((min(pairs), max(pairs))):
        pair, length = pairs[tokens], f"{count(tokens)} new tokens"
        ratio = pair[True]["tokens_per_s"] / pair[False]["tokens_per_s"]
        if not (part := trials_part(pair[True], pair[False], "tokens_per_s")):
            found.append(f"with {length} no difference can be told, since {_WHY_NOT[part]}")
        elif ratio > 1:
            found.append(f"with {length} the cache is {figure(ratio, 2)} times as fast")
        else:
            found.append(f"with {length} the cache is slower, {figure(ratio, 2)} times the speed")
    same = {"yes": " Both generated the same tokens.", "no": " Their tokens differ."}
    return [
        said(
            f"Key-value cache: {'; '.join(found)}.{same.get(flag(run.get('kv_bench', 'same_ids')), '')}"
        )
    ]


def _lowest(settings: dict[str, dict[str, Any]], key: str) -> tuple[str, float] | None:
    known = {
        name: value
        for name, row in settings.items()
        if (value := as_number(row.get(key))) is not None
    }
    return min(known.items(), key=lambda item: item[1]) if len(known) > 1 else None


def judge_accumulation(run: Run) -> list[Finding]:
    """Which accumulation is best for the same text, and which for the same number of updates."""
    settings = run.table("accum_sweep", "settings")
    found = []
    for key, what in (
        ("held_out_loss_at_equal_tokens", "the same tokens"),
        ("held_out_loss_at_equal_updates", "the same number of updates"),
    ):
        best = _lowest(settings, key)
        if best:
            found.append(
                f"after {what} accumulation {best[0]} has the lowest held-out loss ({loss(best[1])})"
            )
    tokens = run.get("accum_sweep", "budget_tokens")
    if not found or as_number(tokens) is None:
        return []
    return [
        said(f"Gradient accumulation: {'; '.join(found)}."),
        not_said(
            f"Which accumulation is best in a long run: each setting read {big(tokens)} tokens, once, with one seed."
        ),
    ]


def judge_recompute(run: Run) -> list[Finding]:
    """What recomputation saves and costs at the greatest depth."""
    costs: dict[float, dict[bool, dict[str, Any]]] = {}
    for row in run.records("ckpt_bench_time", "settings"):
        layers = as_number(row.get("layers"))
        if layers is not None:
            costs.setdefault(layers, {})[bool(row.get("recompute"))] = row
    pairs = {layers: pair for layers, pair in costs.items() if len(pair) == 2}
    if not pairs:
        return []
    layers = max(pairs)
    memory, memory_kept = (as_number(pairs[layers][on].get("peak_mib")) for on in (True, False))
    step, step_kept = (as_number(pairs[layers][on].get("step_s")) for on in (True, False))
    if not (memory and memory_kept and step and step_kept):
        return []
    verb = "saves memory" if memory < memory_kept else "saves no memory"
    exact = [run.get("ckpt_bench", key) for key in ("same_loss", "same_gradients")]
    same = (
        " Loss and gradients are the same to the last bit."
        if exact == [True, True]
        else (" Loss or gradients differ, so it is not a free choice." if False in exact else "")
    )
    slower = f"for {figure(step / step_kept, 3)} times the time of a step"
    if not (part := trials_part(pairs[layers][True], pairs[layers][False], "step_s")):
        slower = f"and no difference in time can be told, since {_WHY_NOT[part]}"
    return [
        said(
            f"Recomputation {verb} at {many(layers, 'layer')}: peak {mebibytes(memory)} against "
            f"{mebibytes(memory_kept)}, {slower}.{same}"
        )
    ]


def trials_part(one: dict[str, Any], other: dict[str, Any], key: str) -> bool | None:
    """Whether the lowest to highest trials of two settings do not meet; None if each was measured only once."""
    low, high, other_low, other_high = (
        as_number(row.get(f"{end}_{key}")) for row in (one, other) for end in ("low", "high")
    )
    if low is None or high is None or other_low is None or other_high is None:
        return None
    if low == high and other_low == other_high:
        return None
    return low > other_high or other_low > high


_WHY_NOT = {False: "the trials of both overlap", None: "each was measured once"}
_IN_A_CELL = {False: "trials overlap", None: "measured once"}


def times_of(one: dict[str, Any], other: dict[str, Any], key: str, what: str = "") -> str:
    """How many times the tokens/s or seconds of the other row, where the trials of both part; else why none is told."""
    own, base = as_number(one.get(key)), as_number(other.get(key))
    if one is other or not own or not base:
        return ABSENT
    part = trials_part(one, other, key)
    return f"{figure(own / base, 2)} times{what}" if part else _IN_A_CELL[part]


def judge_timings(run: Run) -> list[Finding]:
    """The conditions of the timings, and that they hold only there."""
    for stage in STAGES:
        machine = run.get(f"{stage}_time", "conditions")
        if isinstance(machine, dict):
            device = machine.get("device") or "cpu"
            name = machine.get("cpu") if device == "cpu" else device
            return [
                not_said(
                    f"How fast any of this is elsewhere: the timings hold for this machine ({name}, "
                    f"{machine.get('threads')} threads)."
                )
            ]
    return []


COST_RULES = (judge_cache, judge_accumulation, judge_recompute, judge_timings)
