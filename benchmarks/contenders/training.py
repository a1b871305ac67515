"""Contenders in training: our Trainer and nanoGPT.

Every setup has `shape` and `threads`. A request with `updates` answers {seconds, tokens}, one with `memory` answers
{peak_mib}.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from benchmarks.contenders.nanogpt import NanoGPT, windows
from benchmarks.frame import Setup, Step, seconds
from benchmarks.shape import ADAMW, Shape, model_settings, new_trainer, stream, train_settings
from tinylm.bench.device import peak_mib

CPU = torch.device("cpu")


def _step(update: Callable[[], object], shape: Shape) -> Step:
    def step(request: Mapping[str, Any]) -> dict[str, Any]:
        if "memory" in request:
            return {"peak_mib": peak_mib(update, CPU, update)}
        updates = request["updates"]
        taken = seconds(lambda: [update() for _ in range(updates)])
        return {"seconds": taken, "tokens": updates * shape.step_tokens}

    return step


def ours(setup: Setup) -> Step:
    """Our training step, as stage train runs it.

    setup: with `preset`, that preset's model and optimizer; `precision` replaces its precision, if given. Without `preset`,
    nanoGPT's architecture and optimizer in `precision`.
    """
    shape = Shape(**setup["shape"])
    if "preset" in setup:
        changes = {"precision": setup["precision"]} if "precision" in setup else {}
        settings = train_settings(shape, setup["preset"], **changes)
        model = model_settings(shape, {}, setup["preset"])
    else:
        settings = train_settings(shape, **ADAMW | {"precision": setup["precision"]})
        model = model_settings(shape)
    trainer = new_trainer(shape, settings, setup["threads"], model=model)
    return _step(lambda: trainer.update(trainer.batches_of(trainer.updates)), shape)


def nanogpt(setup: Setup) -> Step:
    """nanoGPT from the user's clone. setup: clone, mode (of `NanoGPT`)."""
    torch.set_num_threads(setup["threads"])
    torch.manual_seed(1)
    shape = Shape(**setup["shape"])
    peer = NanoGPT(setup["clone"], shape, setup["mode"])
    ids = stream(shape, 64 * shape.step_tokens)
    return _step(lambda: peer.update(windows(ids, shape)), shape)
