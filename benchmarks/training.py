"""Training at the shape of word-50k: tokens per second and peak memory, compared with nanoGPT."""

import dataclasses

from benchmarks.contenders import training as contenders
from benchmarks.contenders.nanogpt import modes
from benchmarks.frame import Entry, Options, Row, compared, fastest, prepared, rates, spread, trials
from benchmarks.shape import of_size

UPDATES = 8  # of a trial: two seconds with native bf16, ten without
PRESET = "word-50k"


def entries(options: Options) -> dict[str, Entry]:
    """tinylm, the preset word-50k, and nanoGPT in each mode."""
    shape = {"shape": dataclasses.asdict(of_size(options.tiny)), "threads": options.threads}
    result = {
        "tinylm": Entry(contenders.ours, shape),
        PRESET: Entry(contenders.ours, shape | {"preset": PRESET}),
    }
    if options.nanogpt is None:
        print("--nanogpt is not given: nanoGPT was not measured", flush=True)
    else:
        for mode in modes(options.tiny):
            setup = shape | {"clone": str(options.nanogpt), "mode": mode}
            result[f"nanoGPT {mode}"] = Entry(contenders.nanogpt, setup)
    return result


def training(options: Options) -> list[Row]:
    """One step at nanoGPT's architecture, batch and dropout; peak memory; the step of the preset itself."""
    memory = []
    with prepared(entries(options)) as running:
        rate = rates(trials(running, options.trials, updates=1 if options.tiny else UPDATES))
        peer = fastest(rate, "nanoGPT")
        if peer:
            what = "peak of one step above weights, gradients and optimizer state"
            sizes = [running[name].measure(memory=True) for name in ("tinylm", peer)]
            ours, theirs = (spread([size["peak_mib"]]) for size in sizes)
            memory.append(Row(what, "MiB", ours, theirs, peer))
    rows = compared("one training step, nanoGPT in its fastest mode", rate, "tinylm", peer)
    preset = Row(f"one training step of the preset {PRESET}", "tokens/s", rate[PRESET])
    return [*rows, *memory, preset]
