"""Rules about what things cost: key-value cache, accumulation and recomputation."""

from collections.abc import Iterator

from tinylm.report.effects import Claims, relative, timed_pairs
from tinylm.report.findings import Finding, compare, measured, not_shown
from tinylm.report.sources import Run
from tinylm.report.wording import ABSENT, count, loss, many, mebibytes, number, seconds


def judge_cache(run: Run, claims: Claims) -> Iterator[Finding]:
    """How much faster the key-value cache makes decoding of the longest text."""
    bench = "kv_bench_time"
    pairs = timed_pairs(run, bench)
    cached = [index for index, (row, _) in pairs.items() if row.cache is True]
    for index in cached[-1:]:
        cache, without = pairs[index]
        yield from compare(
            claims,
            (bench, index),
            f"Decoding of {count(cache.new_tokens)} tokens is {{}} with the key-value cache.",
            ("faster", "slower"),
            f"{number(cache.tokens_per_s)} compared with {number(without.tokens_per_s)} tokens/s. Relative "
            f"to no cache: {relative(run, claims, bench, index)}.",
        )
    same = run.tree("kv_bench").same_ids
    if isinstance(same, bool):
        which = "the same" if same else "different"
        yield measured(f"With and without the cache {which} tokens are generated.")


def judge_recompute(run: Run, claims: Claims) -> Iterator[Finding]:
    """What recomputation saves and costs at the greatest depth."""
    time = "ckpt_bench_time"
    pairs = timed_pairs(run, time)
    recomputed = [index for index, (row, _) in pairs.items() if row.recompute is True]
    for index in recomputed[-1:]:
        recompute, plain = pairs[index]
        depth = many(recompute.layers, "layer")
        if recompute.peak_mib and plain.peak_mib:
            peaks = f"{mebibytes(recompute.peak_mib)} instead of {mebibytes(plain.peak_mib)}"
            yield measured(f"With checkpointing and {depth}, the peak memory is {peaks}.")
        yield from compare(
            claims,
            (time, index),
            f"A training step of {depth} is {{}} with checkpointing.",
            ("slower", "faster"),
            f"Time relative to no recompute: {relative(run, claims, time, index)}.",
        )
    bench = run.tree("ckpt_bench")
    if bench.same_loss is True and bench.same_gradients is True:
        yield measured("With checkpointing the loss and gradients are the same to the last bit.")
    elif False in (bench.same_loss, bench.same_gradients):
        yield measured("With checkpointing the loss or gradients differ.")


def describe_accumulation(run: Run, _: Claims) -> Iterator[Finding]:
    """Loss and time with the fewest and the most mini-batches per update."""
    settings = run.tree("accum_sweep").settings
    names = sorted(settings, key=int)
    if len(names) < 2:
        return
    times = run.tree("accum_sweep_time").settings
    for name in (names[0], names[-1]):
        nats = loss(settings[name].held_out_loss_at_equal_tokens)
        epoch = seconds(times[name].epoch_s)
        if nats != ABSENT:
            how = f"With accumulation = {name} the held-out loss is {nats} after the same text."
            yield measured(how, "" if epoch == ABSENT else f"An epoch takes {epoch}.")
    why = "Each setting was trained with one seed, at one learning rate."
    yield not_shown("Which accumulation is best.", why)


COST_SECTIONS = {
    "cache": (judge_cache,),
    "accumulation": (describe_accumulation,),
    "checkpointing": (judge_recompute,),
}
