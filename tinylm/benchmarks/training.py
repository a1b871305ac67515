"""Training at the shape of word-50k: tokens a second and the allocator's peak, against nanoGPT and transformers."""

import contextlib
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from tinylm.benchmarks.interleaved import Side, in_turn, rates, spread
from tinylm.benchmarks.options import Options, command
from tinylm.benchmarks.record import Row, against
from tinylm.benchmarks.shape import of_size

NAME = "training"
UPDATES = {"full": 8, "tiny": 1}  # of a turn: some two seconds
LIKE = {"optimizer": "adamw", "precision": "bf16"}


def _sides(options: Options, stack: contextlib.ExitStack) -> dict[str, Side]:
    """Every side, prepared; the peers that are not at hand are left out."""
    shape = {"shape": dataclasses.asdict(of_size(options.size))}
    found = {
        "tinylm": options.side("tinylm", "our_training:make", shape | {"settings": LIKE}),
        "word-50k": options.side("tinylm, preset word-50k", "our_training:make", shape | {"form": "preset"}),
    }
    if options.nanogpt is not None:
        clone = shape | {"clone": str(options.nanogpt)}
        for mode in ("bf16+compile", "bf16", "fp32") if not options.tiny else ("bf16", "fp32"):
            found[f"nanoGPT {mode}"] = options.side("nanoGPT", "nanogpt:make", clone | {"mode": mode}, peer=True)
    if options.has("transformers"):
        found["transformers bf16"] = options.side("transformers", "gpt2_training:make", shape, peer=True)
    for side in found.values():
        stack.enter_context(side)
    return found


def _rows(rate: Mapping[str, Mapping[str, float]], peaks: Mapping[str, Any]) -> list[Row]:
    ours, unit = rate["tinylm"], "tokens/s"
    best = max((name for name in rate if name.startswith("nanoGPT")), key=lambda n: rate[n]["median"], default=None)
    rows = []
    if best is not None:
        what = "one step, nanoGPT's architecture, batch and dropout, against its best mode"
        rows.append(against(what, unit, ours, rate[best], best, must=1.8, stretch=2.2))
        what = "the same, against its plain CPU mode"
        rows.append(against(what, unit, ours, rate["nanoGPT fp32"], "nanoGPT fp32", must=5.0))
        what = "allocator's peak of a step above weights, gradients and optimizer"
        mine, theirs = (spread([peaks[name]["peak_mib"]]) for name in ("tinylm", best))
        rows.append(against(what, "MiB", mine, theirs, best, must=0.5, higher=False))
        mine, theirs = (spread([peaks[name]["process_mib"]]) for name in ("tinylm", best))
        rows.append(against("largest size of the process", "MiB", mine, theirs, best))
    peer = "transformers bf16"
    if peer in rate:
        rows.append(against("one step, against GPT-2 of transformers", unit, ours, rate[peer], peer))
    rows.append(Row("one step of the preset word-50k (frozen vectors)", unit, rate["word-50k"]))
    return rows


def run(options: Options) -> list[Row]:
    """Training at the shape of word-50k: tokens a second and peak memory, against nanoGPT and transformers."""
    updates = UPDATES[options.size]
    with contextlib.ExitStack() as stack:
        sides = _sides(options, stack)
        turns = in_turn(
            {name: functools.partial(side.turn, updates=updates) for name, side in sides.items()}, options.turns
        )
        peaks = {name: sides[name].turn(memory=True) for name in sides if name != "transformers bf16"}
    if options.nanogpt is None:
        print("NANOGPT is not set: nanoGPT was not measured", flush=True)
    return _rows({name: spread(rates(found)) for name, found in turns.items()}, peaks)


if __name__ == "__main__":
    command(NAME, run)
