"""Training: tokens per second and peak memory, compared with nanoGPT and with the processor's limit, at two shapes."""

import dataclasses

from benchmarks.contenders import training as contenders
from benchmarks.contenders.nanogpt import modes, precisions
from benchmarks.contenders.products import limit
from benchmarks.frame import (
    Entry,
    Options,
    Row,
    compared,
    fastest,
    prepared,
    rates,
    spread,
    trials,
)
from benchmarks.shape import STORYBOOK, Shape, of_size

UPDATES = 8  # of a trial: two seconds with native bf16, ten without
LIMIT = "the processor's limit"  # a step at the speed of its matrix products alone


def entries(options: Options, shape: Shape, preset: str) -> dict[str, Entry]:
    """tinylm as the preset has it; tinylm as nanoGPT, and the processor's limit, in each precision; nanoGPT in each mode."""
    setup = {"shape": dataclasses.asdict(shape), "threads": options.threads}
    result = {preset: Entry(contenders.ours, setup | {"preset": preset})}
    for name in precisions():
        result[f"tinylm {name}"] = Entry(contenders.ours, setup | {"precision": name})
        result[f"{LIMIT} in {name}"] = Entry(limit, setup | {"precision": name})
    if options.nanogpt is None:
        print("--nanogpt is not given: nanoGPT was not measured", flush=True)
        return result
    for mode in modes(options.tiny):
        peer = setup | {"clone": str(options.nanogpt), "mode": mode}
        result[f"nanoGPT {mode}"] = Entry(contenders.nanogpt, peer)
    return result


def training(options: Options) -> list[Row]:
    """The shape of the preset word-50k, with dropout 0.1."""
    return _compared(options, of_size(options.tiny), "word-50k")


def training_storybook(options: Options) -> list[Row]:
    """The shape of the default run, without dropout."""
    return _compared(options, of_size(options.tiny, STORYBOOK), "storybook")


def _compared(options: Options, shape: Shape, preset: str) -> list[Row]:
    """One step at nanoGPT's architecture, batch and dropout; peak memory; the step of the preset itself."""
    with prepared(entries(options, shape, preset)) as running:
        rate = rates(trials(running, options.trials, updates=1 if options.tiny else UPDATES))
        ours = fastest(rate, "tinylm")
        peer = fastest(rate, "nanoGPT")
        rows = compared("one training step, each in its fastest mode", rate, ours, peer)
        if peer:
            what = "peak of one step above weights, gradients and optimizer state"
            sizes = [running[name].measure(memory=True) for name in (ours, peer)]
            our_size, their_size = (spread([size["peak_mib"]]) for size in sizes)
            rows.append(Row(what, "MiB", our_size, their_size, peer))
    if ours != "tinylm fp32":
        what = "one training step in fp32, as on a processor without bf16"
        rows += compared(what, rate, "tinylm fp32", fastest(rate, "nanoGPT fp32"))
    own = Row(f"one training step of the preset {preset}", "tokens/s", rate[preset])
    limits = []
    for name in precisions():
        what = f"one training step in {name}, as a share of the processor's limit"
        limits += compared(what, rate, f"tinylm {name}", f"{LIMIT} in {name}")
    return [*rows, own, *limits]
