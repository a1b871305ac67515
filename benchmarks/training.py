"""Training at the shape of word-50k: tokens per second and peak memory, compared with nanoGPT and transformers."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from benchmarks.frame import Contender, Row, compared, fastest, rates, spread, trials
from benchmarks.options import Entry, Options
from benchmarks.shape import ADAMW_BF16, of_size

FULL_UPDATES = 8  # of a trial: about two seconds
MODES = ("bf16+compile", "bf16", "fp32")
GPT2 = "transformers GPT-2 bf16"


def entries(options: Options) -> dict[str, Entry]:
    """tinylm, the preset word-50k, nanoGPT in each mode, and GPT-2 of transformers."""
    shape = {"shape": dataclasses.asdict(of_size(options.tiny))}
    contenders = {
        "tinylm": Entry("training:ours", shape | {"settings": ADAMW_BF16}),
        "word-50k": Entry("training:ours", shape | {"form": "preset"}),
    }
    if options.nanogpt is None:
        print("NANOGPT is not set: nanoGPT was not measured", flush=True)
    else:
        for mode in MODES[1:] if options.tiny else MODES:
            setup = shape | {"clone": str(options.nanogpt), "mode": mode}
            contenders[f"nanoGPT {mode}"] = Entry("training:nanogpt", setup)
    contenders[GPT2] = Entry("training:transformers", shape, needs="transformers")
    return contenders


def _memory(contenders: Mapping[str, Contender], peer: str) -> list[Row]:
    """Peak memory of one step of both sides."""
    sizes: dict[str, dict[str, Any]] = {
        name: contenders[name].measure(memory=True) for name in ("tinylm", peer)
    }
    rows = []
    for key, what in (
        ("peak_mib", "peak of one step above weights, gradients and optimizer state"),
        ("process_mib", "largest size of the process"),
    ):
        ours, theirs = (spread([sizes[name][key]]) for name in ("tinylm", peer))
        rows.append(Row(what, "MiB", ours, theirs, peer))
    return rows


def training(options: Options) -> list[Row]:
    """One step at nanoGPT's architecture, batch and dropout; peak memory; the step of the preset itself."""
    updates = 1 if options.tiny else FULL_UPDATES
    with options.contenders(entries(options)) as contenders:
        rate = rates(trials(contenders, options.trials, updates=updates))
        peer = fastest(rate, "nanoGPT")
        memory = _memory(contenders, peer) if peer else []
    rows = compared("one training step, nanoGPT in its fastest mode", rate, "tinylm", peer)
    rows += compared("one training step, nanoGPT's default on CPU", rate, "tinylm", "nanoGPT fp32")
    rows += compared("one training step", rate, "tinylm", GPT2)
    preset = Row("one training step of the preset word-50k", "tokens/s", rate["word-50k"])
    return [*rows, *memory, preset]
