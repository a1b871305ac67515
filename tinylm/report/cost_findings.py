"""Rules about what things cost: key-value cache, accumulation, recomputation, timings."""

from typing import Any

from tinylm.report.findings import Finding, not_shown, shown
from tinylm.report.sources import Run, Tree, as_number
from tinylm.report.wording import ABSENT, big, count, flag, loss, many, mebibytes, number

# Without any difference, 2 + 2 trials part by so many times their own spread in about 1 of 30 cases.
CLEAR_GAP = 3


def trials_differ(one: Any, other: Any, key: str) -> bool | None:
    """Whether the trials of two settings part clearly; None if each was measured only once.

    Clearly: the gap between them is more than CLEAR_GAP times the larger range of the trials of one setting.
    """
    low, high = as_number(one.get(f"low_{key}")), as_number(one.get(f"high_{key}"))
    other_low, other_high = as_number(other.get(f"low_{key}")), as_number(other.get(f"high_{key}"))
    if low is None or high is None or other_low is None or other_high is None:
        return None
    spread = max(high - low, other_high - other_low)
    if spread == 0:
        return None
    return max(low - other_high, other_low - high) > CLEAR_GAP * spread


def relative(one: Any, other: Any, key: str) -> str:
    """One value relative to another: 2.1 times; why none is given where their trials do not part clearly."""
    value, base = as_number(one.get(key)), as_number(other.get(key))
    if one is other or not value or not base:
        return ABSENT
    differ = trials_differ(one, other, key)
    if differ is None:
        return "measured once"
    return f"{number(value / base, 2)} times" if differ else "no clear difference"


def _pairs(rows: list[Tree], key: str, switch: str) -> dict[float, dict[bool, Tree]]:
    """For each value of `key` the rows with and without the switch, where both were measured."""
    pairs: dict[float, dict[bool, Tree]] = {}
    for row in rows:
        value = as_number(row.get(key))
        if value is not None:
            pairs.setdefault(value, {})[bool(row.get(switch))] = row
    return {value: pair for value, pair in sorted(pairs.items()) if len(pair) == 2}


def judge_cache(run: Run) -> list[Finding]:
    """How much faster the key-value cache makes decoding, at the shortest and the longest text."""
    pairs = _pairs(run.records("kv_bench_time", "settings"), "new_tokens", "cache")
    findings = []
    for tokens in dict.fromkeys((*list(pairs)[:1], *list(pairs)[-1:])):
        cache, without = pairs[tokens][True], pairs[tokens][False]
        evidence = f"{number(cache.tokens_per_s)} against {number(without.tokens_per_s)} tokens/s"
        differ = trials_differ(cache, without, "tokens_per_s")
        length = f"{count(tokens)} new tokens"
        if differ:
            how = "faster" if cache.tokens_per_s > without.tokens_per_s else "slower"
            claim = f"With {length} decoding with the key-value cache is {how}."
            times = relative(cache, without, "tokens_per_s")
            findings.append(shown(claim, f"{evidence}, {times} the speed."))
        else:
            why = "each was measured once" if differ is None else "their trials do not part clearly"
            claim = f"Whether the key-value cache makes decoding of {length} faster."
            findings.append(not_shown(claim, f"{evidence}; {why}."))
    same = flag(run.get("kv_bench", "same_ids"))
    if same == "yes":
        findings.append(shown("With and without the cache the same tokens are generated."))
    elif same == "no":
        findings.append(shown("With and without the cache different tokens are generated."))
    return findings


def judge_accumulation(run: Run) -> list[Finding]:
    """Which accumulation is best: one seed cannot show it."""
    settings = run.table("accum_sweep", "settings")
    lowest = []
    for key, what in (
        ("held_out_loss_at_equal_tokens", "the same tokens"),
        ("held_out_loss_at_equal_updates", "as many updates"),
    ):
        losses = {name: as_number(row.get(key)) for name, row in settings.items()}
        measured = {name: value for name, value in losses.items() if value is not None}
        if len(measured) > 1:
            best = min(measured, key=lambda name: measured[name])
            lowest.append(f"after {what} {best} has the lowest ({loss(measured[best])})")
    if not lowest:
        return []
    tokens = big(run.get("accum_sweep", "budget_tokens"))
    evidence = f"Each setting read {tokens} tokens once, with one seed. Of the held-out losses, {'; '.join(lowest)}."
    return [not_shown("Which accumulation is best.", evidence)]


def judge_recompute(run: Run) -> list[Finding]:
    """What recomputation saves and costs at the greatest depth."""
    pairs = _pairs(run.records("ckpt_bench_time", "settings"), "layers", "recompute")
    if not pairs:
        return []
    layers = max(pairs)
    recompute, plain = pairs[layers][True], pairs[layers][False]
    memory, plain_memory = as_number(recompute.peak_mib), as_number(plain.peak_mib)
    if not memory or not plain_memory:
        return []
    saves = "saves memory" if memory < plain_memory else "saves no memory"
    evidence = (
        f"With {many(layers, 'layer')} the peak is {mebibytes(memory)} against {mebibytes(plain_memory)}; time of a "
        f"step relative to storing all: {relative(recompute, plain, 'step_s')}."
    )
    findings = [shown(f"Gradient checkpointing {saves}.", evidence)]
    exact = [run.get("ckpt_bench", key) for key in ("same_loss", "same_gradients")]
    if exact == [True, True]:
        findings.append(shown("Its loss and gradients are the same to the last bit."))
    elif False in exact:
        findings.append(shown("Its loss or gradients differ, so it is not a free choice."))
    return findings


COST_RULES = (judge_cache, judge_accumulation, judge_recompute)
