"""Rules about what things cost: key-value cache, recomputation, timings."""

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from tinylm.report.findings import Finding, not_shown, shown
from tinylm.report.sources import Run, Tree, as_number
from tinylm.report.wording import ABSENT, count, interval, many, mebibytes, number

# Without any difference, 2 + 2 trials are this many spreads apart in about 1 of 30 cases.
CLEAR_GAP = 3


def trials_differ(one: Any, other: Any, key: str) -> bool | None:
    """Whether two settings differ clearly; None if each was measured only once.

    Clearly: the gap between their trials is more than CLEAR_GAP times the larger of their ranges.
    """
    first = interval([one.get(f"low_{key}"), one.get(f"high_{key}")])
    second = interval([other.get(f"low_{key}"), other.get(f"high_{key}")])
    if first is None or second is None:
        return None
    low, high = first
    other_low, other_high = second
    spread = max(high - low, other_high - other_low)
    if spread == 0:
        return None
    return max(low - other_high, other_low - high) > CLEAR_GAP * spread


def relative(one: Any, other: Any, key: str) -> str:
    """One value relative to another, such as 2.1 times, or why no ratio is given."""
    value, base = as_number(one.get(key)), as_number(other.get(key))
    if one is other or not value or not base:
        return ABSENT
    differ = trials_differ(one, other, key)
    if differ is None:
        return "measured once"
    return f"{number(value / base, 2)} times" if differ else "no clear difference"


def with_baseline(
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


def judge_cache(run: Run) -> Iterator[Finding]:
    """How much faster the key-value cache makes decoding of the longest text."""
    pairs = with_baseline(run, "kv_bench_time", "cache", ("new_tokens", "rows"))
    for cache, without in [pair for pair in pairs if pair[0].cache is True][-1:]:
        speeds = f"{number(cache.tokens_per_s)} against {number(without.tokens_per_s)} tokens/s"
        length = f"{count(cache.new_tokens)} new tokens"
        if trials_differ(cache, without, "tokens_per_s"):
            how = "faster" if cache.tokens_per_s > without.tokens_per_s else "slower"
            claim = f"With {length} decoding with the key-value cache is {how}."
            yield shown(claim, f"{speeds}, {relative(cache, without, 'tokens_per_s')} the speed.")
        else:
            claim = f"Whether the key-value cache makes decoding of {length} faster."
            yield not_shown(claim, f"{speeds}; the trials overlap or are close.")
    same = run.tree("kv_bench").same_ids
    if isinstance(same, bool):
        which = "the same" if same else "different"
        yield shown(f"With and without the cache {which} tokens are generated.")


def judge_recompute(run: Run) -> Iterator[Finding]:
    """What recomputation saves and costs at the greatest depth."""
    pairs = with_baseline(run, "ckpt_bench_time", "recompute", ("layers",))
    for recompute, plain in [pair for pair in pairs if pair[0].recompute is True][-1:]:
        if recompute.peak_mib and plain.peak_mib:
            saves = "saves memory" if recompute.peak_mib < plain.peak_mib else "saves no memory"
            peaks = f"{mebibytes(recompute.peak_mib)} against {mebibytes(plain.peak_mib)}"
            depth = many(recompute.layers, "layer")
            time = relative(recompute, plain, "step_s")
            evidence = (
                f"With {depth} the peak is {peaks}; time of a step relative to plain: {time}."
            )
            yield shown(f"Gradient checkpointing {saves}.", evidence)
    bench = run.tree("ckpt_bench")
    if bench.same_loss is True and bench.same_gradients is True:
        yield shown("With checkpointing the loss and gradients are the same to the last bit.")
    elif False in (bench.same_loss, bench.same_gradients):
        yield shown("With checkpointing the loss or gradients differ.")


COST_RULES = (judge_cache, judge_recompute)
