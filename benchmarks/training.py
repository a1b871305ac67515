"""Training at the shape of word-50k: tokens per second and the allocator's peak, against nanoGPT and transformers."""

import dataclasses

from benchmarks.interleaved import rates, spreads, trials
from benchmarks.options import Entry, Options
from benchmarks.record import Row, against, best
from benchmarks.shape import ADAMW_BF16, of_size

UPDATES = {"full": 8, "tiny": 1}  # per trial: about two seconds
GPT2 = "transformers bf16"


def entries(options: Options) -> dict[str, Entry]:
    """tinylm, the preset word-50k, nanoGPT in each mode and GPT-2 of transformers."""
    shape = {"shape": dataclasses.asdict(of_size(options.size))}
    entries = {
        "tinylm": Entry("training:ours", shape | {"settings": ADAMW_BF16}),
        "word-50k": Entry("training:ours", shape | {"form": "preset"}),
    }
    if options.nanogpt is None:
        print("NANOGPT is not set: nanoGPT was not measured", flush=True)
    else:
        for mode in ("bf16", "fp32") if options.tiny else ("bf16+compile", "bf16", "fp32"):
            setup = shape | {"clone": str(options.nanogpt), "mode": mode}
            entries[f"nanoGPT {mode}"] = Entry("training:nanogpt", setup, peer=True)
    return entries | {GPT2: Entry("training:transformers", shape, peer=True, needs="transformers")}


def training(options: Options) -> list[Row]:
    """Training at the shape of word-50k: tokens per second and peak memory, against nanoGPT and transformers."""
    with options.contenders(entries(options)) as contenders:
        rate = rates(trials(contenders, options.trials, updates=UPDATES[options.size]))
        sizes = {name: contenders[name].measure(memory=True) for name in contenders if name != GPT2}
    ours, unit, peer = rate["tinylm"], "tokens/s", best(rate, "nanoGPT")
    rows = []
    if peer:
        peak, process = (
            spreads([sizes["tinylm"]], [sizes[peer]], figure)
            for figure in ("peak_mib", "process_mib")
        )
        what = "one step, nanoGPT's architecture, batch and dropout, against its best mode"
        rows.append(against(what, unit, ours, rate[peer], peer, must=2.2, stretch=2.6))
        plain = "nanoGPT fp32"
        rows.append(
            against(
                "the same, against its plain CPU mode", unit, ours, rate[plain], plain, must=5.0
            )
        )
        what = "allocator's peak of a step above weights, gradients and optimizer"
        rows.append(against(what, "MiB", *peak, peer, must=0.5, higher=False))
        rows.append(against("largest size of the process", "MiB", *process, peer))
    if GPT2 in rate:
        rows.append(
            against("one step, against GPT-2 of transformers", unit, ours, rate[GPT2], GPT2)
        )
    return [*rows, Row("one step of the preset word-50k (frozen vectors)", unit, rate["word-50k"])]
