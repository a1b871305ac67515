"""Training at the shape of word-50k: tokens per second and peak memory, compared with nanoGPT."""

import dataclasses

import torch

from benchmarks.contenders import training as contenders
from benchmarks.frame import Entry, Options, Row, compared, fastest, prepared, rates, spread, trials
from benchmarks.shape import of_size
from tinylm.base.machine import multiplies_in_bf16

FULL_UPDATES = 8  # of a trial: two seconds with native bf16, ten without
PRESET = "word-50k"


def modes(tiny: bool = False) -> list[str]:
    """nanoGPT's modes: fp32, bf16 if it is native; then each with torch.compile, unless tiny."""
    precisions = ["fp32", "bf16"] if multiplies_in_bf16(torch.device("cpu")) else ["fp32"]
    return precisions if tiny else precisions + [f"{name}+compile" for name in precisions]


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
    updates = 1 if options.tiny else FULL_UPDATES
    memory = []
    with prepared(entries(options)) as running:
        rate = rates(trials(running, options.trials, updates=updates))
        peer = fastest(rate, "nanoGPT")
        if peer:
            what = "peak of one step above weights, gradients and optimizer state"
            sizes = [running[name].measure(memory=True) for name in ("tinylm", peer)]
            ours, theirs = (spread([size["peak_mib"]]) for size in sizes)
            memory.append(Row(what, "MiB", ours, theirs, peer))
    rows = compared("one training step, nanoGPT in its fastest mode", rate, "tinylm", peer)
    rows += compared("one training step, nanoGPT's default on CPU", rate, "tinylm", "nanoGPT fp32")
    preset = Row(f"one training step of the preset {PRESET}", "tokens/s", rate[PRESET])
    return [*rows, *memory, preset]
